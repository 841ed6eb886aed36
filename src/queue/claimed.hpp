// What comes out of a claim: messages, and those that must not be handed out any more.
#pragma once

#include "twinbox/message.hpp"
#include "twinbox/session.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

/// Reads the columns of the define `claimed` in work.sql, in its order.
Message read_claimed(const Row& row);

/// True when the message has taken down `max_expiries` workers: it becomes a dead letter.
bool crash_looped(const Message& message, int max_expiries) noexcept;
std::string crash_text(const Message& message);
inline const Failure crash_loop{.reason = "crash_loop", .handler_failed = false};

}  // namespace twinbox
