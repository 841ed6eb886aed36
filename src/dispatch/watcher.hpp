// Wakes dispatchers when other processes have committed: one thread for all watches. If there are
// more stores than connections to listen with, the most active stores get them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "database/watch.hpp"
#include "twinbox/environment.hpp"

namespace twinbox {

class WorkQueue;

/// Thread-safe.
class Watcher {
 public:
  struct Times {
    /// The delay after a watch broke: doubled after each failure, with jitter.
    std::chrono::milliseconds first_pause{250};
    std::chrono::milliseconds longest_pause{30'000};
    /// How long a subscriber must be busy before notifications are switched off to spare writers
    /// their cost.
    std::chrono::milliseconds busy{100};
    /// How long a watch is kept open at least before its connection goes to a more active store.
    std::chrono::milliseconds tenure{1'000};
  };

  /// The watcher of this process, while it has users. Use this one: the watches of SQLite files
  /// share a descriptor, which only one thread can wait for.
  static std::shared_ptr<Watcher> shared();

  explicit Watcher(Times times);
  Watcher() : Watcher(Times{}) {}
  /// Every subscription must have ended.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  struct Entry;

  /// Ends with the object; no call is in progress after that.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(Subscription&& other) noexcept;
    Subscription& operator=(Subscription&& other) noexcept;
    ~Subscription();

    /// True while commits of others are reported. Otherwise poll.
    [[nodiscard]] bool working() const noexcept;

    /// A busy dispatcher needs no notification: it polls anyway. Cheap, call it at every turn.
    /// After set_waiting(true), poll once more, then wait: no later commit is missed.
    void set_waiting(bool waiting) noexcept;

    /// A poll has found deliveries that no commit of this process added. If no notification
    /// arrived, a watch is opened, if necessary in place of the one with the oldest notification.
    void found() noexcept;

   private:
    friend Watcher;
    Subscription(Watcher& watcher, std::shared_ptr<Entry> entry);
    void end() noexcept;

    Watcher* watcher_ = nullptr;
    std::shared_ptr<Entry> entry_;  ///< shared with the watcher's threads
  };

  /// From now on `call` is called when others may have committed for the queue, once after each
  /// opening of the watch, since a commit may have been missed before, and once when it has broken
  /// or was closed, since no notification follows for a while. If notifications are impossible, it
  /// is never called. `call` comes from a thread of the watcher; it must be short, must not throw
  /// and must not end the subscription. The queue must outlive the subscription. Opening runs in
  /// the background and never throws here.
  [[nodiscard]] Subscription watch(WorkQueue& queue, std::function<void()> call);

  /// The same for any watch. `store` is its name in the log. A watch can be closed in favor of
  /// another one with the same `budget`.
  [[nodiscard]] Subscription watch(OpenWatch open, std::function<void()> call,
                                   Environment environment = {}, std::string store = {},
                                   const void* budget = nullptr);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace twinbox
