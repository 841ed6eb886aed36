// Converts delays of new messages into due times, by the database's clock.
#pragma once

#include <deque>
#include <optional>

#include "queue/box.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

/// For the messages of one call. Reads the clock once, and only if a message has a delay.
class DueTimes {
 public:
  /// `session` is the transaction that the call is part of; null: the call has its own.
  DueTimes(const Box& box, Session* session) : box_(box), session_(session) {}

  /// `extras` with a due time instead of a delay; lives as long as both. Throws DatabaseError.
  const MessageExtras* of(const MessageExtras& extras);

 private:
  [[nodiscard]] Instant ask_clock() const;

  const Box& box_;
  Session* session_;
  std::optional<Instant> now_ = {};
  std::deque<MessageExtras> changed_ = {};
};

/// Throws std::invalid_argument or std::out_of_range for invalid times.
void check_times(const MessageExtras& extras);

}  // namespace twinbox
