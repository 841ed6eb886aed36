#include "daemon/store/time_limits.hpp"

#include <vector>

namespace twinbox::app {

TimeLimits::Limit::Limit(TimeLimits& limits, std::chrono::milliseconds time)
    : limits_(limits), end_(Clock::now() + time) {
  const std::lock_guard lock{limits_.mutex_};
  if (limits_.ended_) stop_.request_stop();
  position_ = limits_.ends_.emplace(end_, stop_);
  if (!limits_.thread_.joinable()) {
    limits_.thread_ =
        std::jthread{[&all = limits_](const std::stop_token& stop) { all.work(stop); }};
  }
  if (position_ != limits_.ends_.begin()) return;
  ++limits_.changes_;
  limits_.changed_.notify_one();
}

TimeLimits::Limit::~Limit() {
  const std::lock_guard lock{limits_.mutex_};
  limits_.ends_.erase(position_);
}

void TimeLimits::end_all() {
  std::vector<std::stop_source> all;
  {
    const std::lock_guard lock{mutex_};
    ended_ = true;
    for (const auto& [end, stop] : ends_) all.push_back(stop);
  }
  for (std::stop_source& stop : all) stop.request_stop();
}

/// The stop is requested outside the lock because it runs the callbacks.
void TimeLimits::work(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    const auto now = Clock::now();
    auto next = now + std::chrono::hours{1};
    std::vector<std::stop_source> late;
    for (const auto& [end, source] : ends_) {
      if (end > now) {
        next = end;
        break;
      }
      if (!source.stop_requested()) late.push_back(source);
    }
    if (!late.empty()) {
      lock.unlock();
      for (std::stop_source& source : late) source.request_stop();
      lock.lock();
      continue;
    }
    changed_.wait_until(lock, stop, next, [&, seen = changes_] { return changes_ != seen; });
  }
}

}  // namespace twinbox::app
