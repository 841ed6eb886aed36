#include "queue/delay.hpp"

#include <stdexcept>

namespace twinbox {

Instant DueTimes::ask_clock() const {
  if (const auto now = box_.environment().now()) return *now;
  const auto ask = [&](Session& session) {
    Instant now{};
    box_.run(session, box_.sql().clock, {box_.now()},
             [&](const Row& row) { now = row.instant(0); });
    return now;
  };
  if (session_ != nullptr) return ask(*session_);
  return pool_of(box_.database()).run(Access::read, Scope::statement, ask);
}

const MessageExtras* DueTimes::of(const MessageExtras& extras) {
  if (!extras.delay) return &extras;
  if (!now_) now_ = ask_clock();
  MessageExtras& changed = changed_.emplace_back(extras);
  changed.due_at = *now_ + *extras.delay;
  changed.delay.reset();
  return &changed;
}

void check_times(const MessageExtras& extras) {
  if (!extras.delay) return;
  if (extras.due_at) {
    throw std::invalid_argument("delay: the message has a due_at as well; give one of them");
  }
  if (*extras.delay < Duration::zero() || *extras.delay > ever) {
    throw std::out_of_range("delay: " + std::to_string(extras.delay->count()) +
                            " microseconds; give zero to 1000 years");
  }
}

}  // namespace twinbox
