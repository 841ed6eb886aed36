// Accepts a broker's deliveries on a thread of its own, so that the broker's thread is not blocked
// by a slow store.
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

/// Thread-safe, except for stop().
class AcceptThread {
 public:
  /// `wake` is called, on the thread, when results are available; it must not wait.
  AcceptThread(AcceptBuffer buffer, std::function<void()> wake);

  void add(BrokerDelivery delivery);
  std::vector<AcceptResult> take();
  /// Ends the current accept, unless it is being committed: the broker still has the delivery.
  void stop();
  /// The number of failed attempts since the last call, and the last error unless it is over.
  std::pair<std::uint64_t, std::string> take_failures();

 private:
  void run(const std::stop_token& stop);

  AcceptBuffer buffer_;  // used by the thread alone
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
