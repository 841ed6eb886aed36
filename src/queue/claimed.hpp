// Claims, and the deliveries that they make dead.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/message.hpp"
#include "twinbox/session.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

class Box;

/// A delivery that can never succeed. Without a message row (`message_missing`) the message has
/// neither id nor topic nor payload.
struct DeadDelivery {
  Message message;
  std::string reason;
  std::string error;
};

struct Claim {
  std::vector<Message> leased = {};
  std::vector<DeadDelivery> dead = {};  ///< `crash_loop` or `message_missing`
  /// Requested, and nothing was leased: how long until a delivery becomes due; below zero: it is.
  std::optional<Duration> next_due = {};
};

struct ClaimRequest {
  OwnerToken owner;
  Duration lease;
  std::int64_t limit;
  std::optional<Instant> visible_from = {};
  bool asks_next_due = false;
  /// There was no notification: on SQLite a read checks for deliveries before the call waits for
  /// the one writer of the file. Needs `asks_next_due`.
  bool looks_first = false;
  /// Called before anything is leased on a connection of our own; may throw.
  std::function<void(const Session&)> check = {};
};

/// WorkQueue::claim with a report on the rest, in a transaction of its own.
Claim claim_or_dead_letter(WorkQueue& queue, const ClaimRequest& request);
/// The same in a transaction that its owner rolls back when this throws.
Claim claim_or_dead_letter(WorkQueue& queue, Session& session, const ClaimRequest& request);

/// How long the delivery with the earliest due time has waited for a claim; zero: none is due.
Duration wait_of_oldest_due(Box& box);

/// Releases the leases of a claim without an answer to `owner`: all except `in_hand`. The owner
/// must not claim meanwhile. Returns how many there were.
std::size_t release_lost(WorkQueue& queue, const OwnerToken& owner,
                         const std::vector<Lease>& in_hand);

/// Every dead letter is an error in the log. Without a cause the reason is the cause.
void log_dead(const Box& box, const Message& message, std::string_view reason,
              std::string_view cause = {});

/// Reads the columns of the define `claimed` in work.sql, in its order.
Message read_claimed(const Row& row);
/// The row of a delivery whose message row is gone.
bool lacks_message(const Row& row);

/// True when the message has taken down `max_expiries` workers: it becomes a dead letter.
bool crash_looped(const Message& message, int max_expiries) noexcept;
std::string crash_text(const Message& message);
inline const Failure crash_loop{.reason = "crash_loop", .handler_failed = false};
/// Requeueing it is pointless, so it never holds its partition key.
inline const Failure message_missing{.reason = "message_missing", .handler_failed = false};

}  // namespace twinbox
