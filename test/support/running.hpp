// What the tests of a dispatcher with its threads share.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {

/// Waits until the token's stop is requested.
inline void wait_for_stop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock{mutex};
  never.wait(lock, stop, [] { return false; });
}

class RunningTest : public BoxTest {
 protected:
  /// Only a wake-up can end a wait.
  static DispatcherOptions by_wake_up(int workers = 2) {
    return {.workers = workers, .poll_interval = 1h};
  }
  DeliveryView only_delivery() { return Admin{outbox()}.list({}).entries.at(0).delivery; }
};

}  // namespace twinbox::test
