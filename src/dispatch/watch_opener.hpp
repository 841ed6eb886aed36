// Opens watches in the background: an unresponsive server must not delay other stores.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "database/watch.hpp"

namespace twinbox {

/// Thread-safe. Has a few threads at most, and none before the first open().
class WatchOpener {
 public:
  struct Opened {
    std::shared_ptr<void> whose;  ///< the owner that open() was given
    std::unique_ptr<Watch> watch = {};
    std::string error = {};   ///< why there is no watch; empty: no connection to spare for it
    bool impossible = false;  ///< and never will be
  };

  /// `ready` is called, from any thread, when a result can be taken.
  explicit WatchOpener(std::function<void()> ready) : ready_(std::move(ready)) {}
  /// Waits for running opens: request their stop before.
  ~WatchOpener();
  WatchOpener(const WatchOpener&) = delete;
  WatchOpener& operator=(const WatchOpener&) = delete;

  void open(std::shared_ptr<void> whose, OpenWatch how, std::stop_token stop);
  std::vector<Opened> take();

 private:
  struct Job {
    std::shared_ptr<void> whose;
    OpenWatch how;
    std::stop_token stop;
  };

  void run();
  static Opened do_job(Job& job);

  const std::function<void()> ready_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Job> jobs_;
  std::vector<Opened> opened_;
  std::size_t idle_ = 0;
  bool closing_ = false;
  std::vector<std::jthread> threads_;  ///< last: they end before anything above is destroyed
};

}  // namespace twinbox
