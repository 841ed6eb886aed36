#include <algorithm>
#include <array>
#include <cstdint>

#include "core/text.hpp"
#include "queue/admin_list.hpp"
#include "queue/group_table.hpp"
#include "queue/read.hpp"
#include "twinbox/operations.hpp"

namespace twinbox {
namespace {

constexpr int message_width = 14;
/// Held keys that are part of another result.
constexpr std::int64_t most_shown = 100;

/// In the order of StateFilter.
constexpr std::array<std::string_view, 11> state_names = {
    "ready",     "scheduled", "leased", "waiting", "done", "dead",
    "discarded", "marked",    "seen",   "open",    "any"};

/// The columns of `message_columns` in operator.sql.
MessageView read_message(const Row& row) {
  return {.number = row.integer(0),
          .source = Source{std::string{row.text(1)}, Unchecked{}},
          .id = MessageId{std::string{row.text(2)}, Unchecked{}},
          .topic = maybe_named<Topic>(row, 3),
          .correlation_id = maybe_named<CorrelationId>(row, 4),
          .partition_key = maybe_named<PartitionKey>(row, 5),
          .content_type = maybe_text(row, 6),
          .created_at = row.instant(7),
          .last_seen_at = row.instant(8),
          .due_at = maybe_instant(row, 9),
          .expires_at = maybe_instant(row, 10),
          .seen_count = static_cast<int>(row.integer(11)),
          .content_version = static_cast<int>(row.integer(12)),
          .has_content = !row.is_null(13),
          .size = row.is_null(13) ? 0 : row.integer(13)};
}

/// The columns of `delivery_columns` and `outcome_columns`, from column `at` on.
DeliveryView read_delivery(const Row& row, std::int64_t number, int at) {
  return {.key = {number, HandlerKey{std::string{row.text(at)}, Unchecked{}}},
          .state = static_cast<DeliveryState>(row.integer(at + 2)),
          .delivery_id =
              row.is_null(at + 1) ? std::nullopt : std::optional{DeliveryId{row.integer(at + 1)}},
          .attempts = static_cast<int>(row.integer(at + 3)),
          .expiries = static_cast<int>(row.integer(at + 4)),
          .requeues = static_cast<int>(row.integer(at + 5)),
          .visible_at = maybe_instant(row, at + 6),
          .lease_until = maybe_instant(row, at + 7),
          .owner = maybe_uuid(row, at + 8),
          .finished_at = maybe_instant(row, at + 9),
          .reason = text_or_empty(row, at + 10),
          .last_error = text_or_empty(row, at + 11)};
}

DeliveryView seen_delivery(std::int64_t number) {
  return {.key = {number},
          .state = DeliveryState::seen,
          .delivery_id = {},
          .visible_at = {},
          .lease_until = {},
          .owner = {},
          .finished_at = {},
          .reason = {},
          .last_error = {}};
}

/// The types check the other members of a filter.
void check_filter(const Filter& filter) {
  if (!filter.error_contains || is_blank(*filter.error_contains)) return;
  check_text("error_contains", *filter.error_contains, SIZE_MAX);
}

Value maybe_view(const auto& maybe) { return maybe ? Value{maybe->view()} : Value{}; }

std::vector<Arg> filter_args(const Box& box, const Filter& filter,
                             const std::optional<DeliveryKey>& after, std::int64_t limit) {
  return {
      {"before", after ? after->number : INT64_MAX},
      {"before_handler", after ? after->handler.view() : std::string_view{}},
      {"limit", limit},
      {"topic", maybe_view(filter.topic)},
      {"handler", maybe_view(filter.handler)},
      {"source", maybe_view(filter.source)},
      {"message_id", maybe_view(filter.id)},
      {"correlation_id", maybe_view(filter.correlation_id)},
      {"error", filter.error_contains ? Value{std::string_view{*filter.error_contains}} : Value{}},
      {"since", filter.created_since},
      {"until", filter.created_before},
      box.now()};
}

const Statement& list_statement(const Box& box, StateFilter state) {
  switch (state) {
    case StateFilter::ready:
    case StateFilter::scheduled:
    case StateFilter::leased:
    case StateFilter::waiting:
    case StateFilter::open: return box.sql().list_open;
    case StateFilter::dead: return box.sql().list_dead;
    case StateFilter::done:
    case StateFilter::discarded:
    case StateFilter::marked: return box.sql().list_finished;
    case StateFilter::seen:
    case StateFilter::any: break;
  }
  return box.sql().list_all;
}

/// The @state argument of the chosen statement: the state of a delivery, or of an outcome.
Value state_value(StateFilter state) {
  if (state == StateFilter::open) return {};
  const auto number = static_cast<std::int64_t>(state);
  return state < StateFilter::done ? number : number - 3;
}

/// One delivery per entry.
Page list_deliveries(const Box& box, Session& session, const Filter& filter, std::int64_t limit,
                     const std::optional<DeliveryKey>& after) {
  std::vector<Arg> args = filter_args(box, filter, after, limit);
  if (filter.state != StateFilter::dead) args.emplace_back("state", state_value(filter.state));
  Page page;
  box.run(session, list_statement(box, filter.state), args, [&](const Row& row) {
    MessageView message = read_message(row);
    DeliveryView delivery = read_delivery(row, message.number, message_width);
    page.entries.push_back({std::move(message), std::move(delivery)});
  });
  if (static_cast<std::int64_t>(page.entries.size()) == limit)
    page.next = page.entries.back().delivery.key;
  return page;
}

/// Whole messages, with all their deliveries.
Page list_messages(const Box& box, Session& session, const Filter& filter, std::int64_t limit,
                   const std::optional<DeliveryKey>& after) {
  std::vector<Arg> args = filter_args(box, filter, after, limit);
  args.emplace_back("seen", Value{filter.state == StateFilter::seen});
  std::erase_if(args,
                [](const Arg& arg) { return arg.name == "before_handler" || arg.name == "now"; });
  std::vector<MessageView> messages;
  box.run(session, box.sql().list_all, args,
          [&](const Row& row) { messages.push_back(read_message(row)); });
  Page page;
  for (const MessageView& message : messages) {
    std::vector<DeliveryView> deliveries = read_deliveries(box, session, message.number);
    if (deliveries.empty()) deliveries.push_back(seen_delivery(message.number));
    for (DeliveryView& delivery : deliveries) {
      if (filter.handler && delivery.key.handler != *filter.handler) continue;
      page.entries.push_back({message, std::move(delivery)});
    }
  }
  if (static_cast<std::int64_t>(messages.size()) == limit)
    page.next = DeliveryKey{messages.back().number};
  return page;
}

/// Seconds, as SQL gives them.
std::optional<Duration> maybe_age(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(row.real(column)));
}

/// The columns of `top_names`, from `ready` on.
StateCounts read_counts(const Row& row) {
  return {.ready = row.integer(4),
          .scheduled = row.integer(5),
          .leased = row.integer(6),
          .waiting = row.integer(7),
          .dead = row.integer(8),
          .done = row.integer(9),
          .discarded = row.integer(10),
          .marked = row.integer(11),
          .seen = row.integer(12),
          .oldest_pending = maybe_age(row, 15),
          .oldest_open = maybe_age(row, 16)};
}

void add(StateCounts& sum, const StateCounts& more) {
  sum.ready += more.ready;
  sum.scheduled += more.scheduled;
  sum.leased += more.leased;
  sum.waiting += more.waiting;
  sum.dead += more.dead;
  sum.done += more.done;
  sum.discarded += more.discarded;
  sum.marked += more.marked;
  sum.seen += more.seen;
  sum.oldest_pending = std::max(sum.oldest_pending, more.oldest_pending);
  sum.oldest_open = std::max(sum.oldest_open, more.oldest_open);
}

Counts read_all_counts(const Box& box, Session& session, bool include_history, std::int64_t names) {
  enum Kind : std::int64_t { topic, handler, owner };
  Counts counts;
  const Statement& statement = include_history ? box.sql().count_history : box.sql().count;
  box.run(session, statement, {{"names", names}, box.now()}, [&](const Row& row) {
    const std::int64_t kind = row.integer(0);
    const StateCounts sums = read_counts(row);
    if (kind == Kind::topic) add(counts.all, sums);
    if (row.is_null(1)) {
      (kind == Kind::topic     ? counts.other_topics
       : kind == Kind::handler ? counts.other_handlers
                               : counts.other_owners) = {row.integer(3), sums};
    } else if (kind == Kind::owner) {
      counts.by_owner.emplace(row.uuid(2), sums.leased);
    } else {
      (kind == Kind::topic ? counts.by_topic : counts.by_handler)
          .emplace(std::string{row.text(1)}, sums);
    }
  });
  return counts;
}

/// The keys that messages from `first` to `last` hold.
std::vector<HeldKey> read_held_keys(const Box& box, Session& session, std::int64_t first,
                                    std::int64_t last, std::int64_t limit) {
  std::vector<HeldKey> held;
  box.run(session, box.sql().held_keys,
          {{"first", first}, {"last", last}, {"limit", limit}, {"most", HeldKey::max_counted}},
          [&](const Row& row) {
            held.push_back(
                {.delivery = {row.integer(0), HandlerKey{std::string{row.text(1)}, Unchecked{}}},
                 .key = PartitionKey{std::string{row.text(2)}, Unchecked{}},
                 .source = Source{std::string{row.text(4)}, Unchecked{}},
                 .id = MessageId{std::string{row.text(5)}, Unchecked{}},
                 .requeued = row.boolean(3),
                 .waiting = row.integer(6)});
          });
  return held;
}

BlockedKey read_blocked_key(const Row& row) {
  return {.delivery = {row.integer(0), HandlerKey{std::string{row.text(1)}, Unchecked{}}},
          .key = PartitionKey{std::string{row.text(2)}, Unchecked{}},
          .source = Source{std::string{row.text(4)}, Unchecked{}},
          .id = MessageId{std::string{row.text(5)}, Unchecked{}},
          .due_at = row.instant(3),
          .waiting = row.integer(6)};
}

std::vector<BlockedKey> read_blocked_keys(const Box& box, Session& session, std::int64_t limit) {
  std::vector<BlockedKey> blocked;
  box.run(session, box.sql().blocked_keys,
          {{"limit", limit},
           {"far", micros(BlockedKey::far)},
           {"most", HeldKey::max_counted},
           box.now()},
          [&](const Row& row) { blocked.push_back(read_blocked_key(row)); });
  return blocked;
}

DeadGroups group_dead(const Box& box, Session& session, std::int64_t limit) {
  DeadGroupTable table(static_cast<std::size_t>(limit));
  box.run(session, box.sql().group_dead, {}, [&](const Row& row) {
    table.add(row.is_null(0) ? std::string_view{} : row.text(0), row.text(1),
              row.is_null(2) ? std::string_view{} : row.text(2), row.instant(3));
  });
  return table.largest();
}

}  // namespace

std::vector<DeliveryView> read_deliveries(const Box& box, Session& session, std::int64_t number) {
  std::vector<DeliveryView> deliveries;
  box.run(session, box.sql().deliveries, {{"number", number}, box.now()},
          [&](const Row& row) { deliveries.push_back(read_delivery(row, number, 0)); });
  return deliveries;
}

Page list_page(const Box& box, Session& session, const Filter& filter, std::int64_t limit,
               const std::optional<DeliveryKey>& after) {
  check_filter(filter);
  const bool whole = filter.state == StateFilter::any || filter.state == StateFilter::seen;
  return whole ? list_messages(box, session, filter, limit, after)
               : list_deliveries(box, session, filter, limit, after);
}

std::string_view to_string(StateFilter state) noexcept {
  const auto index = static_cast<std::size_t>(state);
  return index < state_names.size() ? state_names[index] : "unknown";
}

// The states of a delivery are the first ones to look for, in the same order.
static_assert(static_cast<int>(DeliveryState::seen) == static_cast<int>(StateFilter::seen));

std::string_view to_string(DeliveryState state) noexcept {
  return to_string(static_cast<StateFilter>(state));
}

std::optional<StateFilter> parse_state_filter(std::string_view name) noexcept {
  const auto found = std::find(state_names.begin(), state_names.end(), name);
  if (found == state_names.end()) return std::nullopt;
  return static_cast<StateFilter>(found - state_names.begin());
}

Admin::Admin(WorkQueue& queue) : queue_(queue) {}

Counts Admin::counts(bool include_history, std::int64_t names) {
  require_limit(names);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    return read_all_counts(box, session, include_history, names);
  });
}

CountsSnapshot Admin::counts_snapshot(std::int64_t names, std::int64_t groups) {
  require_limit(names);
  require_limit(groups);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::transaction, [&](Session& session) {
    return CountsSnapshot{.counts = read_all_counts(box, session, false, names),
                          .dead = group_dead(box, session, groups),
                          .held_keys = read_held_keys(box, session, 0, INT64_MAX, most_shown),
                          .blocked_keys = read_blocked_keys(box, session, most_shown)};
  });
}

Page Admin::list(const Filter& filter, std::int64_t limit,
                 const std::optional<DeliveryKey>& after) {
  require_limit(limit);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::transaction, [&](Session& session) {
    return list_page(box, session, filter, limit, after);
  });
}

std::optional<MessageDetail> Admin::get(const MessageKey& key) {
  return box_of(queue_).in_own_transaction(Access::read, Scope::transaction,
                                           [&](Session& session) { return get(session, key); });
}

std::optional<MessageDetail> Admin::get(Session& session, const MessageKey& key) {
  Box& box = box_of(queue_);
  std::optional<MessageDetail> detail;
  box.run(box.require_usable(session), box.sql().get,
          {{"id", key.id.view()}, {"source", key.source.view()}}, [&](const Row& row) {
            detail.emplace(MessageDetail{read_message(row),
                                         std::string{row.bytes(message_width)},
                                         maybe_text(row, message_width + 1),
                                         {},
                                         {},
                                         {},
                                         {}});
            if (!row.is_null(message_width + 2)) {
              detail->hash = ContentHash{std::string{row.bytes(message_width + 2)},
                                         text_or_empty(row, message_width + 3)};
            }
          });
  if (!detail) return detail;
  const std::int64_t number = detail->message.number;
  detail->deliveries = read_deliveries(box, session, number);
  const std::int64_t asked = MessageDetail::max_timeline + 1;
  box.run(session, box.sql().failures, {{"number", number}, {"limit", asked}}, [&](const Row& row) {
    detail->timeline.push_back({row.instant(0), HandlerKey{std::string{row.text(1)}, Unchecked{}},
                                static_cast<int>(row.integer(2)), maybe_uuid(row, 3),
                                text_or_empty(row, 4)});
  });
  if (std::ssize(detail->timeline) == asked) {
    detail->more_attempts = true;
    detail->timeline.erase(detail->timeline.begin());
  }
  if (detail->message.partition_key) {
    detail->held_keys = read_held_keys(box, session, number, number, most_shown);
    box.run(session, box.sql().blocked_by,
            {{"number", number},
             {"far", micros(BlockedKey::far)},
             {"most", HeldKey::max_counted},
             box.now()},
            [&](const Row& row) { detail->blocked_keys.push_back(read_blocked_key(row)); });
  }
  return detail;
}

std::optional<MessageDetail> Admin::get(const MessageId& id) {
  return box_of(queue_).in_own_transaction(Access::read, Scope::transaction,
                                           [&](Session& session) { return get(session, id); });
}

std::optional<MessageDetail> Admin::get(Session& session, const MessageId& id) {
  Box& box = box_of(queue_);
  std::vector<Source> sources;
  constexpr std::size_t most_sources = 10;  // are named
  box.run(box.require_usable(session), box.sql().find_sources,
          {{"id", id.view()}, {"limit", static_cast<std::int64_t>(most_sources + 1)}},
          [&](const Row& row) { sources.emplace_back(std::string{row.text(0)}, Unchecked{}); });
  if (sources.empty()) return std::nullopt;
  if (sources.size() == 1) return get(session, MessageKey{sources.front(), id});
  std::string names;
  for (std::size_t i = 0; i < std::min(most_sources, sources.size()); ++i)
    names += (names.empty() ? "" : ", ") + sources[i].str();
  if (sources.size() > most_sources) names += ", …";
  throw UsageError("message id '" + id.str() + "' is known from several sources (" + names +
                   "): name the source");
}

DeadGroups Admin::dead_groups(std::int64_t limit) {
  require_limit(limit);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::statement,
                                [&](Session& session) { return group_dead(box, session, limit); });
}

std::vector<BlockedKey> Admin::blocked_keys(std::int64_t limit) {
  require_limit(limit);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    return read_blocked_keys(box, session, limit);
  });
}

std::vector<HeldKey> Admin::held_keys(std::int64_t limit) {
  require_limit(limit);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    return read_held_keys(box, session, 0, INT64_MAX, limit);
  });
}

}  // namespace twinbox
