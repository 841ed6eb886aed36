// Accepts what a broker has delivered on a thread of its own, so that whoever talks to the broker
// can go on doing so while a store takes its time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/accept_buffer.hpp"

namespace twinbox {

/// Thread-safe, but for stop().
class AcceptThread {
 public:
  /// `wake` is called, on the thread, when there is something to take; it must not wait.
  AcceptThread(AcceptBuffer buffer, std::function<void()> wake);

  void add(BrokerDelivery delivery);
  std::vector<AcceptResult> take();
  /// What is under way ends, unless it is being committed: the broker has it still.
  void stop();
  /// How many attempts have failed since the last call, and why the last one did, unless that is
  /// over.
  std::pair<std::uint64_t, std::string> take_failures();

 private:
  void run(const std::stop_token& stop);

  AcceptBuffer buffer_;  // of the thread alone
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<BrokerDelivery> incoming_;
  std::vector<AcceptResult> results_;
  std::uint64_t retried_ = 0;
  std::string error_;
  std::jthread thread_;
};

}  // namespace twinbox
