// Supervises handlers that run within requests, as a dispatcher does its own: renews their leases
// while they work, and requests a stop of those that exceed their timeout.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "dispatch/call.hpp"
#include "twinbox/inbox.hpp"

namespace twinbox {

/// Thread-safe. Its thread begins with the first call.
class InlineCallMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  /// The arguments must outlive it.
  InlineCallMonitor(Inbox& inbox, Duration lease, const DispatchObserver& observer)
      : inbox_(inbox), lease_(lease), observer_(observer) {}

  struct Call {
    explicit Call(OwnerToken of) : owner(of) {}

    const OwnerToken owner;
    std::shared_ptr<const Message> message = {};  ///< shared with the handling thread
    Clock::time_point renew_at = {};
    Clock::time_point deadline = {};
    CallWatch watch = {};
  };
  using SharedCall = std::shared_ptr<Call>;  // shared with the monitor thread while it checks

  /// Keeps the lease of a message from now on. `claimed`: right before the claim began.
  SharedCall track(OwnerToken owner, std::shared_ptr<const Message> message,
                   Clock::time_point claimed);
  /// Its handler is called now: its timeout counts from here. An at-most-once call is marked
  /// before, and has no lease to renew.
  void begin(const SharedCall& call, const HandlerOptions& options);
  void end(const SharedCall& call);

 private:
  void work(const std::stop_token& stop);
  void renew(Call& call);
  bool has_lease(const Call& call);
  void report_late(const SharedCall& call);

  Inbox& inbox_;
  const Duration lease_;
  const DispatchObserver& observer_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::list<SharedCall> calls_;
  std::uint64_t changes_ = 0;  ///< for its thread
  std::jthread thread_;        // last: it uses what stands above
};

}  // namespace twinbox
