// Wakes waiting dispatchers of this process after a commit.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>

namespace twinbox {

/// Thread-safe. Costs one atomic read without subscribers.
class Wake {
 public:
  /// Ends with the subscription object; no call is in progress after that.
  class Subscription {
   public:
    Subscription(Wake& wake, std::function<void()> call) : wake_(wake) {
      const std::scoped_lock lock{wake_.mutex_};
      position_ = wake_.calls_.insert(wake_.calls_.end(), std::move(call));
      ++wake_.count_;
    }
    ~Subscription() {
      const std::scoped_lock lock{wake_.mutex_};
      wake_.calls_.erase(position_);
      --wake_.count_;
    }
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    Wake& wake_;
    std::list<std::function<void()>>::iterator position_;
  };

  /// Called after a commit that may have added deliveries. The calls must be short and must not
  /// throw.
  void notify() {
    if (count_.load() == 0) return;
    const std::scoped_lock lock{mutex_};
    for (const auto& call : calls_) call();
  }

 private:
  std::mutex mutex_;
  std::list<std::function<void()>> calls_;
  std::atomic<int> count_ = 0;
};

}  // namespace twinbox
