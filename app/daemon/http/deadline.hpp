// A deadline that every step of a connection moves and that is rarely reached.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace twinbox::app {

/// Moving the deadline only stores it: the timer keeps running and checks the deadline when it
/// fires. Use it only on its executor.
template <class Executor>
class Deadline {
  using Clock = std::chrono::steady_clock;

 public:
  /// Calls `reached` once for each deadline that passes. `owner` is kept alive until then.
  Deadline(const Executor& executor, std::function<void()> reached)
      : timer_(executor), reached_(std::move(reached)) {}

  template <class Owner>
  void set(Clock::duration time, const std::shared_ptr<Owner>& owner) {
    limit_ = Clock::now() + time;
    if (!running_ || limit_ < timer_.expiry()) run(owner);
  }
  void clear() noexcept { limit_ = Clock::time_point::max(); }
  void stop() {
    clear();
    timer_.cancel();
  }

 private:
  template <class Owner>
  void run(const std::shared_ptr<Owner>& owner) {
    running_ = true;
    timer_.expires_at(limit_);
    timer_.async_wait([this, weak = std::weak_ptr{owner}](boost::system::error_code moved) {
      const auto alive = weak.lock();
      if (moved || !alive) return;
      running_ = false;
      if (limit_ == Clock::time_point::max()) return;
      if (Clock::now() < limit_) return run(alive);
      clear();
      reached_();
    });
  }

  boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Executor> timer_;
  std::function<void()> reached_;
  Clock::time_point limit_ = Clock::time_point::max();
  bool running_ = false;
};

}  // namespace twinbox::app
