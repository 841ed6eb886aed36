// How somebody without Twinbox would learn of new work: the shortest way from a commit to a claim.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "candidate.hpp"

namespace twinbox::bench {

/// Rung when a message is about to be handled.
class Bell {
 public:
  using Clock = std::chrono::steady_clock;

  /// `owner` is who is expected to ring it.
  explicit Bell(std::string owner) : owner_(std::move(owner)) {}

  void ring();
  /// When it was rung; then it is silent again. Throws std::runtime_error after ten seconds.
  Clock::time_point wait();

 private:
  const std::string owner_;
  std::mutex mutex_;
  std::condition_variable rung_;
  Clock::time_point at_ = {};
};

/// Waits on a thread of its own, claims, rings, and acks.
class RawWaiter {
 public:
  RawWaiter() = default;
  RawWaiter(const RawWaiter&) = delete;
  RawWaiter& operator=(const RawWaiter&) = delete;
  virtual ~RawWaiter() = default;
  /// Whoever waits in the same process is told so; all others find out by themselves.
  virtual void tell() {}
};

std::unique_ptr<RawWaiter> wait_for_condition(const StoreAddress& site, Bell& bell);
/// LISTEN on PostgreSQL; on SQLite `data_version`, asked when the directory has changed.
std::unique_ptr<RawWaiter> wait_for_commits(const StoreAddress& site, Bell& bell);
/// SQLite only: `data_version`, asked again without a rest.
std::unique_ptr<RawWaiter> spin_for_commits(const StoreAddress& site, Bell& bell);

}  // namespace twinbox::bench
