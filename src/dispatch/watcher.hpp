// Wakes dispatchers when other processes have committed something: one thread for all watches.
// Where there are more stores than connections to listen with, those listen where most is found.
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
    /// How long a watch that broke is left alone: twice as long after each failure, with jitter.
    std::chrono::milliseconds first_pause{250};
    std::chrono::milliseconds longest_pause{30'000};
    /// How long a subscriber does not wait before the writers are spared the cost of telling it.
    std::chrono::milliseconds busy{100};
    /// How long a watch is kept open at least before its connection goes to a more active store.
    std::chrono::milliseconds tenure{1'000};
  };

  /// The watcher of this process, as long as somebody has it. Use this one: the watches of SQLite
  /// files share a descriptor, which only one thread can wait for.
  static std::shared_ptr<Watcher> shared();

  explicit Watcher(Times times);
  Watcher() : Watcher(Times{}) {}
  /// Every subscription must have ended.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  struct Entry;

  /// Ends with the object; no call is under way after that.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(Subscription&& other) noexcept;
    Subscription& operator=(Subscription&& other) noexcept;
    ~Subscription();

    /// True while commits of others are told of. Otherwise look now and then.
    [[nodiscard]] bool working() const noexcept;

    /// Whoever is busy need not be told: he looks anyway. Cheap, to be called at every turn. After
    /// set_waiting(true), look once more, then wait: nothing that was committed since is missed.
    void set_waiting(bool waiting) noexcept;

    /// A look has found what no commit of this process brought. Where it had to be found without
    /// being told, a watch is opened, if need be in place of the one that has been without news for
    /// longest.
    void found() noexcept;

   private:
    friend Watcher;
    Subscription(Watcher& watcher, std::shared_ptr<Entry> entry);
    void end() noexcept;

    Watcher* watcher_ = nullptr;
    std::shared_ptr<Entry> entry_;  ///< shared with the watcher's threads
  };

  /// From now on `call` is called when others may have committed something for the queue, once
  /// after each time the watch has been opened, since something may have been missed before, and
  /// once when it has broken or was closed, since nothing will be told for a while. Where nobody
  /// can be told, it is never called. `call` comes from a thread of the watcher; it must be short,
  /// must not throw and must not end the subscription. The queue must outlive the subscription.
  /// Opening is done in the background and never throws here.
  [[nodiscard]] Subscription watch(WorkQueue& queue, std::function<void()> call);

  /// The same for any watch. `store` is its name in the log. Watches with the same `budget` can be
  /// closed for one another.
  [[nodiscard]] Subscription watch(OpenWatch open, std::function<void()> call,
                                   Environment environment = {}, std::string store = {},
                                   const void* budget = nullptr);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace twinbox
