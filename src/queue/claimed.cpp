#include "queue/claimed.hpp"

#include <algorithm>
#include <string>

#include "queue/box.hpp"
#include "queue/read.hpp"

namespace twinbox {
namespace {

int number(const Row& row, int column) { return static_cast<int>(row.integer(column)); }

std::vector<Message> claim_some(const Box& box, Session& session, const OwnerToken& owner,
                                Duration lease, std::int64_t limit,
                                const std::optional<Instant>& visible_from) {
  std::vector<Message> messages;
  messages.reserve(static_cast<std::size_t>(std::min<std::int64_t>(limit, 1024)));
  box.run(session, box.sql().claim,
          {{"owner", Value{owner.uuid()}},
           {"lease", micros(lease)},
           {"limit", limit},
           {"floor", visible_from},
           box.now()},
          [&](const Row& row) { messages.push_back(read_claimed(row)); });
  return messages;
}

/// Such a message is handed out alone, so it is the whole claim: it is failed, and the claim is
/// made again.
bool only_crash_looped(const Box& box, const std::vector<Message>& messages) {
  return messages.size() == 1 && crash_looped(messages.front(), box.options().max_expiries);
}

}  // namespace

Claim claim_or_bury(WorkQueue& queue, const OwnerToken& owner, Duration lease, std::int64_t limit,
                    const std::optional<Instant>& visible_from) {
  Box& box = queue.box();
  box.advise(lease, limit);
  Claim claim;
  for (;;) {
    claim.leased = box.own(Access::write_relaxed, Scope::statement, [&](Session& session) {
      return claim_some(box, session, owner, lease, limit, visible_from);
    });
    if (!only_crash_looped(box, claim.leased)) break;
    Message& last = claim.leased.front();
    if (queue.fail(owner, last, crash_text(last), crash_loop) > 0) {
      log_dead(box, last, crash_loop.reason);
      claim.dead.push_back(std::move(last));
    }
  }
  box.log(LogLevel::debug, "claim", {{"count", static_cast<std::int64_t>(claim.leased.size())}});
  return claim;
}

Claim claim_or_bury(WorkQueue& queue, Session& session, const OwnerToken& owner, Duration lease,
                    std::int64_t limit, const std::optional<Instant>& visible_from) {
  Box& box = queue.box();
  box.advise(lease, limit);
  Claim claim = all_or_nothing(box.checked(session), [&] {
    Claim some;
    for (;;) {
      some.leased = claim_some(box, session, owner, lease, limit, visible_from);
      if (!only_crash_looped(box, some.leased)) return some;
      Message& last = some.leased.front();
      queue.fail(session, owner, last, crash_text(last), crash_loop);
      some.dead.push_back(std::move(last));
    }
  });
  for (const Message& message : claim.dead) log_dead(box, message, crash_loop.reason);
  box.log(LogLevel::debug, "claim", {{"count", static_cast<std::int64_t>(claim.leased.size())}});
  return claim;
}

std::vector<Message> bury_expired(Box& box, Session& session, std::int64_t limit) {
  std::vector<Message> dead;
  box.run(session, box.sql().expire, {{"limit", limit}, box.now()},
          [&](const Row& row) { dead.push_back(read_claimed(row)); });
  return dead;
}

void log_dead(const Box& box, const Message& message, std::string_view reason) {
  box.log(LogLevel::error, "dead",
          {{"topic", message.topic.view()},
           {"handler", message.handler.view()},
           {"id", message.id.view()},
           {"reason", reason}});
}

Message read_claimed(const Row& row) {
  return Message{
      .work_id = WorkId{row.integer(0)},
      .epoch = number(row, 1),
      .handler = HandlerKey{std::string{row.text(2)}, Trusted{}},
      .attempts = number(row, 3),
      .expiries = number(row, 4),
      .requeues = number(row, 5),
      .visible_at = row.instant(6),
      // What has expired may never have been leased.
      .lease_until = row.is_null(7) ? row.instant(6) : row.instant(7),
      .last_error = row.is_null(8) ? std::string{} : std::string{row.text(8)},
      .source = Source{std::string{row.text(9)}, Trusted{}},
      .id = MessageId{std::string{row.text(10)}, Trusted{}},
      .topic = Topic{std::string{row.text(11)}, Trusted{}},
      .payload = std::string{row.bytes(12)},
      .content_type = maybe_text(row, 13),
      .headers = maybe_text(row, 14),
      .correlation_id = maybe_named<CorrelationId>(row, 15),
      .partition_key = maybe_named<PartitionKey>(row, 16),
      .hash = maybe_hash(row, 17, 18),
      .due_at = maybe_instant(row, 19),
      .expires_at = maybe_instant(row, 20),
      .created_at = row.instant(21),
      .last_seen_at = row.instant(22),
      .seen_count = number(row, 23),
      .content_version = number(row, 24),
  };
}

bool crash_looped(const Message& message, int max_expiries) noexcept {
  return max_expiries > 0 && message.expiries >= max_expiries;
}

std::string crash_text(const Message& message) {
  return "the worker that held it died " + std::to_string(message.expiries) + " times";
}

}  // namespace twinbox
