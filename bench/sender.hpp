// Enqueues one message at a time, and knows when it was committed.
#pragma once

#include <chrono>

#include "database/pool.hpp"
#include "load.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox::bench {

class Sender {
 public:
  using Clock = std::chrono::steady_clock;

  /// Before anybody else waits for wake-ups of `database`: it wants to be the first to know.
  Sender(Database& database, const BoxOptions& options)
      : outbox_(database, options),
        committed_(pool_of(database).wake(), [this] { at_ = Clock::now(); }) {}

  /// When the commit had returned. One call at a time.
  Clock::time_point send() {
    outbox_.enqueue(message_);
    return at_;
  }

  Outbox& outbox() noexcept { return outbox_; }

 private:
  Outbox outbox_;
  Clock::time_point at_ = {};
  Wake::Subscription committed_;
  const NewMessage message_ = some_messages(1, 256).front();
};

}  // namespace twinbox::bench
