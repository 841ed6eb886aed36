#include "twinbox/work_queue.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <limits>
#include <set>
#include <unordered_map>

#include "core/text.hpp"
#include "database/answer_timeout.hpp"
#include "queue/box.hpp"
#include "queue/claimed.hpp"
#include "queue/direct_sweep.hpp"
#include "queue/prune.hpp"
#include "queue/sweep.hpp"

namespace twinbox {
namespace {

Value owner_value(const OwnerToken& owner) { return owner.uuid(); }

/// The same value for each of `count` deliveries.
std::vector<Value> repeated(const Value& value, std::size_t count) {
  return std::vector<Value>(count, value);
}

Value text_or_null(std::string_view text) { return text.empty() ? Value{} : Value{text}; }

/// A way to settle deliveries: its name, and its effect on those that are still held.
template <class Apply>
struct Settling {
  std::string_view action;
  Apply apply;  ///< (Box&, Session&, const Deliveries&), returns how many were changed
  LogLevel level = LogLevel::debug;
  std::string reason = {};  ///< for the log
  Scope scope = Scope::statement;
};

template <class Apply>
Settling(std::string_view, Apply) -> Settling<Apply>;
template <class Apply>
Settling(std::string_view, Apply, LogLevel, std::string) -> Settling<Apply>;
template <class Apply>
Settling(std::string_view, Apply, LogLevel, std::string, Scope) -> Settling<Apply>;

auto acking(const OwnerToken& owner) {
  return Settling{"ack", [&owner](Box& box, Session& session, const Deliveries& held) {
                    return box.run(session, box.sql().ack,
                                   {{"owner", owner_value(owner)},
                                    DeliveryArgs::ids(held),
                                    DeliveryArgs::epochs(held),
                                    DeliveryArgs::check_epoch(held),
                                    box.now()});
                  }};
}

auto failing(const OwnerToken& owner, std::string_view error, const Failure& failure) {
  return Settling{"fail",
                  [&owner, cut = truncate_error(error), &failure](Box& box, Session& session,
                                                                  const Deliveries& held) {
                    const std::vector<Value> errors = repeated(text_or_null(cut), held.size());
                    const std::string reason = truncate_error(failure.reason);
                    const bool holds =
                        box.options().hold_keys && failure.reason != message_missing.reason;
                    return box.run(session, box.sql().fail,
                                   {{"owner", owner_value(owner)},
                                    DeliveryArgs::ids(held),
                                    DeliveryArgs::epochs(held),
                                    DeliveryArgs::check_epoch(held),
                                    {"error", ValueType::text, errors},
                                    {"reason", reason},
                                    {"counts", Value{failure.handler_failed}},
                                    {"hold_keys", Value{holds}},
                                    box.now()});
                  },
                  LogLevel::info, truncate_error(failure.reason)};
}

/// The statement doubles the delay by itself; jitter, or a user's function, is computed here.
bool delays_here(const RetryPolicy& retry) { return retry.custom || retry.jitter != Jitter::none; }

std::vector<Value> delays_of(Box& box, Session& session, const Deliveries& held) {
  std::vector<Value> delays(held.size());
  const RetryPolicy& retry = box.options().retry;
  if (!delays_here(retry)) return delays;
  std::unordered_map<std::int64_t, int> attempts;
  const Arg ids = DeliveryArgs::ids(held);
  box.run(session, box.sql().attempts, {ids}, [&](const Row& row) {
    attempts.emplace(row.integer(0), static_cast<int>(row.integer(1)));
  });
  for (std::size_t i = 0; i < delays.size(); ++i) {
    const auto found = attempts.find(std::get<std::int64_t>(ids.column[i]));
    if (found == attempts.end()) continue;
    const int failures = std::min(found->second, std::numeric_limits<int>::max() - 1) + 1;
    delays[i] = micros(retry.delay(failures, box.environment()));
  }
  return delays;
}

auto abandoning(const OwnerToken& owner, std::string_view error,
                const std::optional<Duration>& delay, const RetryPolicy& retry) {
  if (delay) require_delay(*delay);
  const bool one_statement = delay || !delays_here(retry);
  return Settling{
      "abandon",
      [&, cut = truncate_error(error)](Box& box, Session& session, const Deliveries& held) {
        const std::vector<Value> errors = repeated(text_or_null(cut), held.size());
        const std::vector<Value> delays =
            delay ? repeated(Value{micros(*delay)}, held.size()) : delays_of(box, session, held);
        return box.run(session, box.sql().abandon,
                       {{"owner", owner_value(owner)},
                        DeliveryArgs::ids(held),
                        DeliveryArgs::epochs(held),
                        DeliveryArgs::check_epoch(held),
                        {"error", ValueType::text, errors},
                        {"delay", ValueType::integer, delays},
                        {"first_delay", micros(retry.first_delay)},
                        {"max_delay", micros(retry.max_delay)},
                        box.now()});
      },
      LogLevel::debug,
      {},
      one_statement ? Scope::statement : Scope::transaction};
}

auto releasing(std::string_view action, const std::optional<OwnerToken>& owner,
               std::optional<Instant> until) {
  if (until) until = not_before_1970(*until);
  return Settling{action, [=](Box& box, Session& session, const Deliveries& held) {
                    return box.run(session, box.sql().release,
                                   {{"owner", owner ? owner_value(*owner) : Value{}},
                                    DeliveryArgs::ids(held),
                                    DeliveryArgs::epochs(held),
                                    DeliveryArgs::check_epoch(held),
                                    {"until", until},
                                    box.now()});
                  }};
}

/// Only after the call: a repeated or failed call is not logged as done.
void log_count(const Box& box, LogLevel level, std::string_view action, std::size_t changed,
               std::string_view reason = {}) {
  const LogField count{"count", static_cast<std::int64_t>(changed)};
  if (reason.empty()) {
    box.log(level, action, {count});
  } else {
    box.log(level, action, {count, {"reason", reason}});
  }
}

/// In a transaction of its own or, with a session, as a part of the caller's.
template <class Apply>
std::size_t settle(Box& box, Session* callers, const Deliveries& deliveries,
                   const Settling<Apply>& way) {
  if (callers != nullptr) box.require_usable(*callers);
  if (deliveries.empty()) return 0;
  const auto work = [&](Session& session) { return way.apply(box, session, deliveries); };
  const std::size_t changed =
      callers != nullptr ? work(*callers) : box.in_own_transaction(Access::write, way.scope, work);
  log_count(box, way.level, way.action, changed, way.reason);
  return changed;
}

/// Settles the delivery without a handler key of each message id.
template <class Apply>
SettledById settle(Box& box, Session* callers, std::span<const MessageId> ids,
                   const Settling<Apply>& way) {
  if (callers != nullptr) box.require_usable(*callers);
  if (ids.empty()) return {};
  const std::set<MessageId> unique(ids.begin(), ids.end());
  std::vector<Value> names;
  for (const MessageId& id : unique) names.emplace_back(id.view());
  const auto work = [&](Session& session) {
    SettledById result;
    std::vector<DeliveryId> found;
    box.run(session, box.sql().find_due, {{"id", ValueType::text, names}}, [&](const Row& row) {
      if (row.integer(1) > 1) {
        result.ambiguous.emplace_back(std::string{row.text(0)}, Unchecked{});
      } else if (!row.is_null(2)) {
        found.emplace_back(row.integer(2));
      }
    });
    if (!found.empty()) result.changed = way.apply(box, session, Deliveries{found});
    return result;
  };
  const SettledById settled = callers != nullptr
                                  ? all_or_nothing(*callers, [&] { return work(*callers); })
                                  : box.in_own_transaction(Access::write, Scope::transaction, work);
  for (const MessageId& id : settled.ambiguous) {
    box.log(LogLevel::warning, "ambiguous_id", {{"id", id.view()}});
  }
  log_count(box, way.level, way.action, settled.changed, way.reason);
  return settled;
}

std::vector<DeliveryId> renew_some(Box& box, Session& session, const OwnerToken& owner,
                                   const Deliveries& held, Duration lease) {
  std::vector<DeliveryId> still_held;
  if (held.empty()) return still_held;
  box.run(session, box.sql().renew,
          {{"owner", owner_value(owner)},
           DeliveryArgs::ids(held),
           DeliveryArgs::epochs(held),
           DeliveryArgs::check_epoch(held),
           {"lease", micros(lease)},
           box.now()},
          [&](const Row& row) { still_held.emplace_back(row.integer(0)); });
  return still_held;
}

constexpr std::int64_t sweep_batch = 1000;

std::size_t reap_some(Box& box, Session& session, std::int64_t limit) {
  return box.run(session, box.sql().reap, {{"limit", limit}, box.now()});
}

std::size_t reap_batch(Box& box, std::int64_t limit) {
  const std::size_t changed =
      box.write([&](Session& session) { return reap_some(box, session, limit); });
  log_count(box, LogLevel::info, "reap", changed);
  return changed;
}

/// Until a batch is not full, or a stop is requested. Returns how many rows changed.
template <class Batch>
std::size_t in_batches(const std::stop_token& stop, const Batch& batch) {
  std::size_t all = 0;
  for (std::size_t some = sweep_batch; some == sweep_batch && !stop.stop_requested(); all += some)
    some = batch();
  return all;
}

/// One page past the expiry, then one past max_age.
std::array<RowPage, 2> expire_some(Box& box, Session& session, std::int64_t limit) {
  std::array<RowPage, 2> pages;
  expire_page(box, session, {}, limit, pages[0]);
  const std::int64_t left = limit - static_cast<std::int64_t>(pages[0].changed);
  if (box.options().max_age && left > 0)
    max_age_page(box, session, max_age_bound(box, session), {}, left, pages[1]);
  return pages;
}

constexpr auto log_nothing = [](const RowPage&) {};

std::size_t reap_rest(Box& box, std::int64_t limit, std::size_t before,
                      const std::stop_token& stop) {
  return before + sweep_page_by_page(
                      box,
                      {.action = "reap", .page = sweep_batch, .limit = limit, .before = before},
                      std::bind_front(reap_page, std::cref(box)), stop, log_nothing);
}

std::size_t log_expired(const Box& box, const std::array<RowPage, 2>& pages) {
  for (const Message& message : pages[0].dead) log_dead(box, message, expired_reason);
  for (const Message& message : pages[1].dead) log_dead(box, message, max_age_reason);
  const std::size_t ended = pages[0].changed + pages[1].changed;
  if (ended > 0) log_count(box, LogLevel::info, "expire", ended);
  return ended;
}

/// Past the expiry, then past max_age.
std::size_t expire_rest(Box& box, std::int64_t limit, const std::stop_token& stop) {
  std::exception_ptr stuck;
  std::size_t ended = 0;
  const auto walk = [&](std::size_t which, const PageWork& work) {
    const auto told = [&](const RowPage& page) {
      std::array<RowPage, 2> pages;
      pages.at(which) = page;
      ended += log_expired(box, pages);
    };
    try {
      const auto left = limit - static_cast<std::int64_t>(ended);
      const SweepOptions sweep_options{.action = "expire", .page = sweep_batch, .limit = left};
      if (left > 0) sweep_page_by_page(box, sweep_options, work, stop, told);
    } catch (const DatabaseError& error) {
      if (!may_be_a_row(error)) throw;
      if (!stuck) stuck = std::current_exception();
    }
  };
  walk(0, std::bind_front(expire_page, std::cref(box)));
  if (box.options().max_age) {
    const std::int64_t below =
        box.in_own_transaction(Access::read, Scope::statement,
                               [&](Session& session) { return max_age_bound(box, session); });
    walk(1, [&box, below](Session& session, const Position& after, std::int64_t some,
                          RowPage& page) { max_age_page(box, session, below, after, some, page); });
  }
  if (stuck) std::rethrow_exception(stuck);
  return ended;
}

/// A failing row must not hide the rows after it: then the rest is done page by page.
template <class Fast, class Rest>
std::size_t with_rest(const Fast& fast, const Rest& rest) {
  try {
    return fast();
  } catch (const DatabaseError& error) {
    if (!may_be_a_row(error)) throw;
  }
  return rest();
}

}  // namespace

WorkQueue::WorkQueue(std::unique_ptr<Box> box) : box_(std::move(box)) {}
WorkQueue::~WorkQueue() = default;

Box& box_of(const WorkQueue& queue) noexcept { return *queue.box_; }

void WorkQueue::wake() const { box_->wake(); }

Database& WorkQueue::database() const noexcept { return box_->database(); }
const BoxOptions& WorkQueue::options() const noexcept { return box_->options(); }

std::vector<Message> WorkQueue::claim(OwnerToken owner, Duration lease, std::int64_t limit,
                                      std::optional<Instant> visible_from) {
  require_lease(lease);
  require_limit(limit);
  return claim_or_dead_letter(*this, {owner, lease, limit, visible_from}).leased;
}

std::vector<Message> WorkQueue::claim(Session& session, OwnerToken owner, Duration lease,
                                      std::int64_t limit, std::optional<Instant> visible_from) {
  require_lease(lease);
  require_limit(limit);
  return all_or_nothing(box_->require_usable(session), [&] {
    return claim_or_dead_letter(*this, session, {owner, lease, limit, visible_from}).leased;
  });
}

std::vector<DeliveryId> WorkQueue::renew(OwnerToken owner, const Deliveries& deliveries,
                                         Duration lease) {
  require_lease(lease);
  if (deliveries.empty()) return {};
  std::vector<DeliveryId> still_held = box_->write(
      [&](Session& session) { return renew_some(*box_, session, owner, deliveries, lease); });
  log_count(*box_, LogLevel::debug, "renew", still_held.size());
  return still_held;
}

std::vector<DeliveryId> WorkQueue::renew(Session& session, OwnerToken owner,
                                         const Deliveries& deliveries, Duration lease) {
  require_lease(lease);
  std::vector<DeliveryId> still_held =
      renew_some(*box_, box_->require_usable(session), owner, deliveries, lease);
  if (!deliveries.empty()) log_count(*box_, LogLevel::debug, "renew", still_held.size());
  return still_held;
}

std::size_t WorkQueue::ack(OwnerToken owner, const Deliveries& deliveries) {
  return settle(*box_, nullptr, deliveries, acking(owner));
}

std::size_t WorkQueue::ack(Session& session, OwnerToken owner, const Deliveries& deliveries) {
  return settle(*box_, &session, deliveries, acking(owner));
}

std::size_t WorkQueue::abandon(OwnerToken owner, const Deliveries& deliveries,
                               std::string_view error, std::optional<Duration> delay) {
  return settle(*box_, nullptr, deliveries, abandoning(owner, error, delay, options().retry));
}

std::size_t WorkQueue::abandon(Session& session, OwnerToken owner, const Deliveries& deliveries,
                               std::string_view error, std::optional<Duration> delay) {
  return settle(*box_, &session, deliveries, abandoning(owner, error, delay, options().retry));
}

std::size_t WorkQueue::fail(OwnerToken owner, const Deliveries& deliveries, std::string_view error,
                            const Failure& failure) {
  return settle(*box_, nullptr, deliveries, failing(owner, error, failure));
}

std::size_t WorkQueue::fail(Session& session, OwnerToken owner, const Deliveries& deliveries,
                            std::string_view error, const Failure& failure) {
  return settle(*box_, &session, deliveries, failing(owner, error, failure));
}

std::size_t WorkQueue::release(OwnerToken owner, const Deliveries& deliveries) {
  return settle(*box_, nullptr, deliveries, releasing("release", owner, {}));
}

std::size_t WorkQueue::release(Session& session, OwnerToken owner, const Deliveries& deliveries) {
  return settle(*box_, &session, deliveries, releasing("release", owner, {}));
}

std::size_t WorkQueue::postpone(OwnerToken owner, const Deliveries& deliveries, Instant until) {
  return settle(*box_, nullptr, deliveries, releasing("postpone", owner, until));
}

std::size_t WorkQueue::postpone(Session& session, OwnerToken owner, const Deliveries& deliveries,
                                Instant until) {
  return settle(*box_, &session, deliveries, releasing("postpone", owner, until));
}

/// An operator names deliveries, not claims: two claims of one delivery are the same one here.
static Deliveries without_epochs(const Deliveries& deliveries) {
  std::vector<DeliveryId> ids;
  for (const Value& id : DeliveryArgs::ids(deliveries).column)
    ids.emplace_back(std::get<std::int64_t>(id));
  return ids;
}

std::size_t WorkQueue::release(const Deliveries& deliveries) {
  return settle(*box_, nullptr, without_epochs(deliveries), releasing("release", {}, {}));
}

std::size_t WorkQueue::release(Session& session, const Deliveries& deliveries) {
  return settle(*box_, &session, without_epochs(deliveries), releasing("release", {}, {}));
}

std::size_t WorkQueue::postpone(const Deliveries& deliveries, Instant until) {
  return settle(*box_, nullptr, without_epochs(deliveries), releasing("postpone", {}, until));
}

std::size_t WorkQueue::postpone(Session& session, const Deliveries& deliveries, Instant until) {
  return settle(*box_, &session, without_epochs(deliveries), releasing("postpone", {}, until));
}

SettledById WorkQueue::ack(OwnerToken owner, std::span<const MessageId> ids) {
  return settle(*box_, nullptr, ids, acking(owner));
}

SettledById WorkQueue::ack(Session& session, OwnerToken owner, std::span<const MessageId> ids) {
  return settle(*box_, &session, ids, acking(owner));
}

SettledById WorkQueue::abandon(OwnerToken owner, std::span<const MessageId> ids,
                               std::string_view error, std::optional<Duration> delay) {
  return settle(*box_, nullptr, ids, abandoning(owner, error, delay, options().retry));
}

SettledById WorkQueue::abandon(Session& session, OwnerToken owner, std::span<const MessageId> ids,
                               std::string_view error, std::optional<Duration> delay) {
  return settle(*box_, &session, ids, abandoning(owner, error, delay, options().retry));
}

SettledById WorkQueue::fail(OwnerToken owner, std::span<const MessageId> ids,
                            std::string_view error) {
  const Failure failure;
  return settle(*box_, nullptr, ids, failing(owner, error, failure));
}

SettledById WorkQueue::fail(Session& session, OwnerToken owner, std::span<const MessageId> ids,
                            std::string_view error) {
  const Failure failure;
  return settle(*box_, &session, ids, failing(owner, error, failure));
}

std::size_t WorkQueue::reap() { return reap(std::stop_token{}); }

std::size_t WorkQueue::reap(const std::stop_token& stop) {
  std::size_t before = 0;
  return with_rest(
      [&] {
        return in_batches(stop, [&] {
          const std::size_t some = reap_batch(*box_, sweep_batch);
          before += some;
          return some;
        });
      },
      [&] { return reap_rest(*box_, INT64_MAX, before, stop); });
}

std::size_t WorkQueue::reap(Session& session) {
  const std::size_t changed = reap_some(*box_, box_->require_usable(session), INT64_MAX);
  log_count(*box_, LogLevel::info, "reap", changed);
  return changed;
}

std::size_t WorkQueue::reap(std::int64_t limit) {
  require_limit(limit);
  return with_rest([&] { return reap_batch(*box_, limit); },
                   [&] { return reap_rest(*box_, limit, 0, {}); });
}

std::size_t WorkQueue::reap(Session& session, std::int64_t limit) {
  require_limit(limit);
  const std::size_t changed = reap_some(*box_, box_->require_usable(session), limit);
  log_count(*box_, LogLevel::info, "reap", changed);
  return changed;
}

std::size_t WorkQueue::expire(std::int64_t limit) {
  require_limit(limit);
  return with_rest(
      [&] {
        return log_expired(*box_, box_->in_own_transaction(
                                      Access::write, Scope::transaction, [&](Session& session) {
                                        return expire_some(*box_, session, limit);
                                      }));
      },
      [&] { return expire_rest(*box_, limit, {}); });
}

std::size_t WorkQueue::expire(Session& session, std::int64_t limit) {
  require_limit(limit);
  return log_expired(*box_, all_or_nothing(box_->require_usable(session),
                                           [&] { return expire_some(*box_, session, limit); }));
}

std::size_t WorkQueue::expire(const std::stop_token& stop) {
  return expire_rest(*box_, INT64_MAX, stop);
}

std::size_t WorkQueue::prune() { return prune({.older_than = *box_->options().retention}); }

std::size_t WorkQueue::prune(const PruneOptions& options) { return prune(options, {}); }

std::size_t WorkQueue::prune(const PruneOptions& options, const std::stop_token& stop) {
  check_prune(options);
  if (stop.stop_requested()) return 0;
  Pruning pruning(*box_, options);
  const auto fast = [&] {
    while (pruning.step() && !stop.stop_requested()) {
    }
    return pruning.deleted();
  };
  const auto rest = [&] {
    const WithoutAnswerTimeout unlimited;
    const std::int64_t below = prune_bound(*box_, options);
    const auto left = options.limit - static_cast<std::int64_t>(pruning.deleted());
    const auto work = [&](Session& session, const Position& after, std::int64_t limit,
                          RowPage& page) {
      prune_page(*box_, session, options, below, after, limit, page);
    };
    const SweepOptions sweep_options{
        .action = "prune", .page = options.batch, .limit = left, .before = pruning.deleted()};
    return pruning.deleted() + sweep_page_by_page(*box_, sweep_options, work, stop, log_nothing);
  };
  const std::size_t deleted = with_rest(fast, rest);
  box_->log(LogLevel::info, "prune", {{"count", static_cast<std::int64_t>(deleted)}});
  return deleted;
}

std::size_t WorkQueue::prune(Session& session, const PruneOptions& options) {
  return prune_once(*box_, box_->require_usable(session), options);
}

}  // namespace twinbox
