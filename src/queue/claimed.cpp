#include "queue/claimed.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "queue/box.hpp"
#include "queue/read.hpp"

namespace twinbox {
namespace {

int number(const Row& row, int column) { return static_cast<int>(row.integer(column)); }

/// How long the query for the next message may take to reach the database.
constexpr Duration question_time = std::chrono::seconds{1};

struct Taken {
  std::vector<Message> leased = {};
  std::vector<Message> missing = {};  ///< leased as well, and their message rows are gone
};

/// The fields of a delivery without its message.
Message read_missing(const Row& row) {
  return Message{.delivery_id = DeliveryId{row.integer(0)},
                 .epoch = number(row, 1),
                 .handler = HandlerKey{std::string{row.text(2)}, Unchecked{}},
                 .attempts = number(row, 3),
                 .expiries = number(row, 4),
                 .requeues = number(row, 5),
                 .visible_at = row.instant(6),
                 .lease_until = row.instant(7),
                 .last_error = text_or_empty(row, 8),
                 .source = Source::none(),
                 .id = MessageId{{}, Unchecked{}},
                 .topic = Topic{{}, Unchecked{}},
                 .payload = {},
                 .content_type = {},
                 .headers = {},
                 .correlation_id = {},
                 .partition_key = {},
                 .hash = {},
                 .due_at = {},
                 .expires_at = {},
                 .created_at = {},
                 .last_seen_at = {},
                 .seen_count = 0,
                 .content_version = 0};
}

Taken claim_some(const Box& box, Session& session, const ClaimRequest& request) {
  if (request.check) request.check(session);
  Taken taken;
  taken.leased.reserve(static_cast<std::size_t>(std::min<std::int64_t>(request.limit, 1024)));
  box.run(session, box.sql().claim,
          {{"owner", Value{request.owner.uuid()}},
           {"lease", micros(request.lease)},
           {"limit", request.limit},
           {"floor", request.visible_from},
           box.now()},
          [&](const Row& row) {
            if (lacks_message(row)) {
              taken.missing.push_back(read_missing(row));
            } else {
              taken.leased.push_back(read_claimed(row));
            }
          });
  return taken;
}

/// Deliveries that were due before `window` were checked by the last claim.
std::optional<Duration> until_next_due(const Box& box, Session& session, Duration window) {
  std::optional<Duration> left;
  box.run(session, box.sql().next_due, {{"window", micros(window)}, box.now()},
          [&](const Row& row) { left = Duration{row.integer(0)}; });
  return left;
}

constexpr std::string_view missing_text = "the message row is gone";

/// Makes hopeless deliveries dead, by `fail`, and keeps the rest. True when nothing is left and one
/// was dead: the claim is repeated. A crash loop is handed out alone, so it is the whole claim.
template <class Fail>
bool only_dead(const Box& box, Taken taken, Claim& claim, const Fail& fail) {
  claim.leased = std::move(taken.leased);
  bool some = !taken.missing.empty();
  if (some && fail(Deliveries{taken.missing}, missing_text, message_missing) > 0) {
    for (Message& message : taken.missing)
      claim.dead.push_back({std::move(message), message_missing.reason, std::string{missing_text}});
  }
  if (claim.leased.size() == 1 && crash_looped(claim.leased.front(), box.options().max_expiries)) {
    Message last = std::move(claim.leased.front());
    claim.leased.clear();
    some = true;
    const std::string text = crash_text(last);
    if (fail(Deliveries{last}, text, crash_loop) > 0)
      claim.dead.push_back({std::move(last), crash_loop.reason, text});
  }
  return some && claim.leased.empty();
}

void log_claim(const Box& box, const Claim& claim) {
  for (const DeadDelivery& dead : claim.dead) log_dead(box, dead.message, dead.reason);
  box.log(LogLevel::debug, "claim", {{"count", static_cast<std::int64_t>(claim.leased.size())}});
}

}  // namespace

Claim claim_or_dead_letter(WorkQueue& queue, const ClaimRequest& request) {
  using Clock = std::chrono::steady_clock;
  Box& box = box_of(queue);
  box.advise(request.lease, request.limit);
  // Where begin and commit cost no round trips, both queries are one call: a second one would have
  // to wait for the writer again.
  const bool together = request.asks_next_due && box.database().dialect() == Dialect::sqlite;
  const auto fail = [&](const Deliveries& held, std::string_view error, const Failure& failure) {
    return queue.fail(request.owner, held, error, failure);
  };
  Claim claim;
  bool due = true;
  if (together && request.looks_first) {
    claim.next_due = box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
      return until_next_due(box, session, ever);
    });
    due = claim.next_due && *claim.next_due <= Duration::zero();
  }
  while (due) {
    const Clock::time_point begin = Clock::now();
    const Scope scope = together ? Scope::transaction : Scope::statement;
    Taken taken = box.in_own_transaction(Access::write_relaxed, scope, [&](Session& session) {
      Taken some = claim_some(box, session, request);
      if (together && some.leased.empty())
        claim.next_due = until_next_due(box, session, question_time);
      return some;
    });
    if (request.asks_next_due && !together && taken.leased.empty()) {
      const auto took = std::chrono::duration_cast<Duration>(Clock::now() - begin);
      claim.next_due = box.in_own_transaction(
          Access::read, Scope::statement,
          [&](Session& session) { return until_next_due(box, session, took + question_time); });
    }
    due = only_dead(box, std::move(taken), claim, fail);
  }
  log_claim(box, claim);
  return claim;
}

Duration wait_of_oldest_due(Box& box) {
  const std::optional<Duration> due =
      box.in_own_transaction(Access::read, Scope::statement,
                             [&](Session& session) { return until_next_due(box, session, ever); });
  return due ? std::max(-*due, Duration::zero()) : Duration::zero();
}

Claim claim_or_dead_letter(WorkQueue& queue, Session& session, const ClaimRequest& request) {
  Box& box = box_of(queue);
  box.advise(request.lease, request.limit);
  const auto fail = [&](const Deliveries& held, std::string_view error, const Failure& failure) {
    return queue.fail(session, request.owner, held, error, failure);
  };
  Claim claim;
  while (only_dead(box, claim_some(box, session, request), claim, fail)) {
  }
  if (request.asks_next_due && claim.leased.empty())
    claim.next_due = until_next_due(box, session, question_time);
  log_claim(box, claim);
  return claim;
}

std::size_t release_lost(WorkQueue& queue, const OwnerToken& owner,
                         const std::vector<Lease>& in_hand) {
  // Others may have leased older ones.
  constexpr std::int64_t looked_at = 10'000;
  std::string held = "{";
  for (const Lease& lease : in_hand) {
    held += (held.size() > 1 ? ",\"" : "\"") + std::to_string(lease.work.number()) +
            "\":" + std::to_string(lease.epoch);
  }
  held += "}";
  Box& box = box_of(queue);
  const std::size_t released =
      box.in_own_transaction(Access::write_relaxed, Scope::statement, [&](Session& session) {
        return box.run(session, box.sql().release_lost,
                       {{"owner", Value{owner.uuid()}},
                        {"held", held},
                        {"limit", looked_at + static_cast<std::int64_t>(in_hand.size())},
                        box.now()});
      });
  if (released > 0) {
    box.log(LogLevel::warning, "release_lost", {{"count", static_cast<std::int64_t>(released)}});
  }
  return released;
}

void log_dead(const Box& box, const Message& message, std::string_view reason,
              std::string_view cause) {
  box.log(LogLevel::error, "dead",
          {{"topic", message.topic.view()},
           {"handler", message.handler.view()},
           {"id", message.id.view()},
           {"reason", reason},
           {"cause", cause.empty() ? reason : cause}});
}

Message read_claimed(const Row& row) {
  return Message{
      .delivery_id = DeliveryId{row.integer(0)},
      .epoch = number(row, 1),
      .handler = HandlerKey{std::string{row.text(2)}, Unchecked{}},
      .attempts = number(row, 3),
      .expiries = number(row, 4),
      .requeues = number(row, 5),
      .visible_at = row.instant(6),
      // An expired one may never have been leased.
      .lease_until = row.is_null(7) ? row.instant(6) : row.instant(7),
      .last_error = row.is_null(8) ? std::string{} : std::string{row.text(8)},
      .source = Source{std::string{row.text(9)}, Unchecked{}},
      .id = MessageId{std::string{row.text(10)}, Unchecked{}},
      .topic = Topic{std::string{row.text(11)}, Unchecked{}},
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

bool lacks_message(const Row& row) { return row.is_null(10); }

bool crash_looped(const Message& message, int max_expiries) noexcept {
  return max_expiries > 0 && message.expiries >= max_expiries;
}

std::string crash_text(const Message& message) {
  return "the worker that held it died " + std::to_string(message.expiries) + " times";
}

}  // namespace twinbox
