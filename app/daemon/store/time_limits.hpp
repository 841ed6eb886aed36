// Time limits for calls to stores.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>

namespace twinbox::app {

/// One thread for all of them. Thread-safe.
class TimeLimits {
  using Clock = std::chrono::steady_clock;
  using Ends = std::multimap<Clock::time_point, std::stop_source>;

 public:
  TimeLimits() = default;
  TimeLimits(const TimeLimits&) = delete;
  TimeLimits& operator=(const TimeLimits&) = delete;

  /// Requests a stop when its time has passed or all limits are cancelled. Must not outlive
  /// `limits`.
  class Limit {
   public:
    Limit(TimeLimits& limits, std::chrono::milliseconds time);
    ~Limit();
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;

    [[nodiscard]] std::stop_token token() const noexcept { return stop_.get_token(); }
    [[nodiscard]] bool passed() const noexcept { return Clock::now() >= end_; }

   private:
    TimeLimits& limits_;
    const Clock::time_point end_;
    std::stop_source stop_;
    Ends::iterator position_;
  };

  /// Cancels all current and future calls, because the process is stopping.
  void end_all();

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  Ends ends_;
  std::uint64_t changes_ = 0;
  bool ended_ = false;
  std::jthread thread_;  // started with the first limit
};

}  // namespace twinbox::app
