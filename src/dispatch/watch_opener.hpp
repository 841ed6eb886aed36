// Opens watches in the background: a server that does not answer must hold up nobody else.
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

/// Thread-safe. Has a few threads at most, and none before something is to be opened.
class WatchOpener {
 public:
  struct Opened {
    std::shared_ptr<void> whose;  ///< as it was handed over
    std::unique_ptr<Watch> watch = {};
    std::string error = {};   ///< why there is no watch; empty: no connection to spare for it
    bool impossible = false;  ///< and never will be
  };

  /// `ready` is called, from any thread, when something can be taken.
  explicit WatchOpener(std::function<void()> ready) : ready_(std::move(ready)) {}
  /// Waits for what is being opened: request a stop of it before.
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
