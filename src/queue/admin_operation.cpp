#include "queue/admin_operation.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/text.hpp"
#include "queue/admin_list.hpp"
#include "queue/operation.hpp"

namespace twinbox {
namespace {

/// The arguments @number and @handler, without repetitions and in order.
class Named {
 public:
  explicit Named(std::span<const DeliveryKey> deliveries)
      : unique_(deliveries.begin(), deliveries.end()) {
    for (const DeliveryKey& delivery : unique_) {
      numbers_.emplace_back(delivery.number);
      handlers_.emplace_back(delivery.handler.view());
    }
  }
  [[nodiscard]] bool empty() const noexcept { return numbers_.empty(); }
  [[nodiscard]] Arg numbers() const { return {"number", ValueType::integer, numbers_}; }
  [[nodiscard]] Arg handlers() const { return {"handler", ValueType::text, handlers_}; }

 private:
  std::set<DeliveryKey> unique_;
  std::vector<Value> numbers_;
  std::vector<Value> handlers_;
};

std::size_t run_named(const Box& box, Session& session, const Statement& statement,
                      std::span<const DeliveryKey> deliveries, std::initializer_list<Arg> more) {
  const Named named(deliveries);
  if (named.empty()) return 0;
  std::vector<Arg> args{named.numbers(), named.handlers(), box.now()};
  args.insert(args.end(), more.begin(), more.end());
  std::size_t changed = 0;
  box.run(session, statement, args, [&](const Row&) { ++changed; });
  return changed;
}

void check_requeue(Duration delay, const Operation& operation) {
  check_operation(operation);
  if (delay != Duration::zero()) require_delay(delay);
}

void check_discard(const Operation& operation) {
  check_operation(operation);
  if (operation.reason.empty() && !operation.dry_run)
    throw std::invalid_argument("reason: empty, say why the messages are thrown away");
}

void check_postpone(const When& when, const Operation& operation) {
  check_operation(operation);
  const Duration* delay = std::get_if<Duration>(&when);
  if (delay != nullptr && *delay != Duration::zero()) require_delay(*delay);
}

bool is_open(DeliveryState state) noexcept { return state < DeliveryState::done; }

/// An operation: its name, its request, its deliveries, and its execution.
struct OperationKind {
  std::string_view name;
  OperationFingerprint content;
  std::function<bool(const DeliveryEntry&)> fits;
  std::function<std::size_t(Session&, std::span<const DeliveryKey>, const OperationRecord::State&)>
      apply;
};

OperationKind requeue_kind(const Box& box, Duration delay) {
  return {.name = "requeue",
          .content = OperationFingerprint{}.add(delay.count()),
          .fits =
              [](const DeliveryEntry& entry) {
                return entry.delivery.state == DeliveryState::dead && entry.message.has_content;
              },
          .apply = [&box, delay](Session& session, std::span<const DeliveryKey> keys,
                                 const auto&) { return requeue_some(box, session, keys, delay); }};
}

OperationKind discard_kind(const Box& box, const Operation& operation) {
  return {
      .name = "discard",
      .content = {},
      .fits =
          [](const DeliveryEntry& entry) {
            return entry.delivery.state == DeliveryState::dead || is_open(entry.delivery.state);
          },
      .apply =
          [&box, &operation](Session& session, std::span<const DeliveryKey> keys, const auto&) {
            return run_named(box, session, box.sql().discard, keys, {{"reason", operation.reason}});
          }};
}

OperationKind postpone_kind(const Box& box, const When& when) {
  const Duration* delay = std::get_if<Duration>(&when);
  OperationFingerprint content;
  if (delay != nullptr) {
    content.add("after").add(delay->count());
  } else {
    content.add("at").add(std::get<Instant>(when).time_since_epoch().count());
  }
  return {.name = "postpone",
          .content = content,
          .fits =
              [](const DeliveryEntry& entry) {
                return entry.delivery.state == DeliveryState::ready ||
                       entry.delivery.state == DeliveryState::scheduled;
              },
          .apply =
              [&box, when](Session& session, std::span<const DeliveryKey> keys,
                           const OperationRecord::State& state) {
                // The same time for every batch.
                const Duration* after = std::get_if<Duration>(&when);
                const Instant until = after != nullptr ? state.started_at + *after
                                                       : not_before_1970(std::get<Instant>(when));
                return run_named(box, session, box.sql().postpone, keys, {{"until", Value{until}}});
              }};
}

/// Only those that belong to the group.
OperationKind within(const DeadGroup& group, OperationKind kind) {
  kind.content.add("group").add(group.error);
  kind.fits = [group, fits = std::move(kind.fits)](const DeliveryEntry& entry) {
    const auto& topic = entry.message.topic;
    return fits(entry) && (topic ? topic->view() : std::string_view{}) == group.topic &&
           normalise_error(entry.delivery.last_error) == group.error;
  };
  return kind;
}

Filter group_filter(const DeadGroup& group) {
  Filter filter{.state = StateFilter::dead};
  if (!group.topic.empty()) filter.topic = Topic{group.topic, Unchecked{}};
  filter.handler = group.handler;
  return filter;
}

/// The deliveries of a page that the kind applies to, at most `room`.
std::vector<DeliveryKey> fitting(const Page& page, const OperationKind& kind, std::int64_t room,
                                 const std::optional<Instant>& died_before) {
  std::vector<DeliveryKey> keys;
  for (const DeliveryEntry& entry : page.entries) {
    if (static_cast<std::int64_t>(keys.size()) >= room) break;
    if (died_before && entry.delivery.finished_at && *entry.delivery.finished_at > *died_before)
      continue;
    if (kind.fits(entry)) keys.push_back(entry.delivery.key);
  }
  return keys;
}

/// The number of deliveries that the kind applies to, page after page.
std::size_t count_fitting(Box& box, Session* callers, const Filter& filter,
                          const Operation& operation, const OperationKind& kind) {
  std::size_t count = 0;
  std::optional<DeliveryKey> after;
  do {
    const Page page = look(box, callers, [&](Session& session) {
      return list_page(box, session, filter, operation.batch, after);
    });
    count += fitting(page, kind, operation.limit - static_cast<std::int64_t>(count), {}).size();
    after = page.next;
  } while (after && static_cast<std::int64_t>(count) < operation.limit);
  return count;
}

/// Reads page after page and applies the kind to the matching deliveries: one transaction for each
/// page, unless it is the caller's.
std::size_t apply_operation(Box& box, Session* callers, const Filter& filter,
                            const Operation& operation, OperationKind kind) {
  if (callers != nullptr) box.require_usable(*callers);
  if (operation.dry_run) return count_fitting(box, callers, filter, operation, kind);
  kind.content.add("filter").add(filter);
  return carry_out(
      OperationRecord{box, kind.name, operation, kind.content}, callers,
      [&](Session& session, const OperationRecord::State& state) -> OperationRecord::Batch {
        const Page page = list_page(box, session, filter, operation.batch, state.position);
        const std::int64_t room = operation.limit - static_cast<std::int64_t>(state.changed);
        // Deliveries that died after the first batch were not meant.
        const auto died_before = state.position ? std::optional{state.started_at} : std::nullopt;
        const std::vector<DeliveryKey> keys = fitting(page, kind, room, died_before);
        return {kind.apply(session, keys, state), page.next};
      });
}

/// The number of named deliveries that the kind applies to.
std::size_t count_fitting(const Box& box, Session& session, std::span<const DeliveryKey> deliveries,
                          const OperationKind& kind) {
  std::size_t count = 0;
  for (const DeliveryKey& delivery : deliveries) {
    const Page page = list_page(box, session, {}, 1, DeliveryKey{delivery.number + 1});
    for (const DeliveryEntry& entry : page.entries) {
      if (entry.delivery.key == delivery && kind.fits(entry)) ++count;
    }
  }
  return count;
}

/// Applies the kind to the named deliveries: in batches, or in the caller's transaction.
std::size_t apply_operation(Box& box, Session* callers, std::span<const DeliveryKey> deliveries,
                            const Operation& operation, OperationKind kind) {
  if (callers != nullptr) box.require_usable(*callers);
  const std::vector<DeliveryKey> keys = in_order(deliveries, operation.limit);
  if (operation.dry_run) {
    return look(box, callers,
                [&](Session& session) { return count_fitting(box, session, keys, kind); });
  }
  kind.content.add("deliveries").add(keys);
  return carry_out(
      OperationRecord{box, kind.name, operation, kind.content}, callers,
      [&](Session& session, const OperationRecord::State& state) -> OperationRecord::Batch {
        const std::span<const DeliveryKey> batch = next_batch(keys, state, operation);
        return {kind.apply(session, batch, state), position_after(batch, keys)};
      });
}

/// A group is a filter, restricted to similar errors.
std::size_t apply_operation(Box& box, Session* callers, const DeadGroup& group,
                            const Operation& operation, OperationKind kind) {
  return apply_operation(box, callers, group_filter(group), operation,
                         within(group, std::move(kind)));
}

/// The operations on deliveries, a filter or a group; with a session, in the caller's transaction.
std::size_t requeue_all(Box& box, Session* callers, const auto& chosen, Duration delay,
                        const Operation& operation) {
  check_requeue(delay, operation);
  return apply_operation(box, callers, chosen, operation, requeue_kind(box, delay));
}

std::size_t discard_all(Box& box, Session* callers, const auto& chosen,
                        const Operation& operation) {
  check_discard(operation);
  return apply_operation(box, callers, chosen, operation, discard_kind(box, operation));
}

std::size_t postpone_all(Box& box, Session* callers, const auto& chosen, const When& when,
                         const Operation& operation) {
  check_postpone(when, operation);
  return apply_operation(box, callers, chosen, operation, postpone_kind(box, when));
}

Filter or_else(StateFilter state, Filter filter) {
  if (filter.state == StateFilter::any) filter.state = state;
  return filter;
}

const Filter& with_state(const Filter& filter) {
  if (filter.state == StateFilter::any) {
    throw std::invalid_argument("state: any, say whether open or dead messages are thrown away");
  }
  return filter;
}

}  // namespace

void check_operation(const Operation& operation) {
  if (operation.limit <= 0) throw std::out_of_range("limit: must be at least 1");
  require_limit(operation.batch);
  if (!operation.actor.empty()) check_text("actor", operation.actor, 255);
  if (!operation.reason.empty()) check_text("reason", operation.reason, 4000);
  if (!operation.operation_id.empty()) check_text("operation id", operation.operation_id, 200);
}

std::size_t requeue_some(const Box& box, Session& session, std::span<const DeliveryKey> deliveries,
                         Duration delay) {
  return run_named(box, session, box.sql().requeue, deliveries, {{"delay", micros(delay)}});
}

std::size_t Admin::requeue(std::span<const DeliveryKey> deliveries, Duration delay,
                           const Operation& operation) {
  return requeue_all(box_of(queue_), nullptr, deliveries, delay, operation);
}

std::size_t Admin::requeue(Session& session, std::span<const DeliveryKey> deliveries,
                           Duration delay, const Operation& operation) {
  return requeue_all(box_of(queue_), &session, deliveries, delay, operation);
}

std::size_t Admin::requeue(const Filter& filter, Duration delay, const Operation& operation) {
  return requeue_all(box_of(queue_), nullptr, or_else(StateFilter::dead, filter), delay, operation);
}

std::size_t Admin::requeue(Session& session, const Filter& filter, Duration delay,
                           const Operation& operation) {
  return requeue_all(box_of(queue_), &session, or_else(StateFilter::dead, filter), delay,
                     operation);
}

std::size_t Admin::requeue(const DeadGroup& group, Duration delay, const Operation& operation) {
  return requeue_all(box_of(queue_), nullptr, group, delay, operation);
}

std::size_t Admin::requeue(Session& session, const DeadGroup& group, Duration delay,
                           const Operation& operation) {
  return requeue_all(box_of(queue_), &session, group, delay, operation);
}

std::size_t Admin::discard(std::span<const DeliveryKey> deliveries, const Operation& operation) {
  return discard_all(box_of(queue_), nullptr, deliveries, operation);
}

std::size_t Admin::discard(Session& session, std::span<const DeliveryKey> deliveries,
                           const Operation& operation) {
  return discard_all(box_of(queue_), &session, deliveries, operation);
}

std::size_t Admin::discard(const Filter& filter, const Operation& operation) {
  return discard_all(box_of(queue_), nullptr, with_state(filter), operation);
}

std::size_t Admin::discard(Session& session, const Filter& filter, const Operation& operation) {
  return discard_all(box_of(queue_), &session, with_state(filter), operation);
}

std::size_t Admin::discard(const DeadGroup& group, const Operation& operation) {
  return discard_all(box_of(queue_), nullptr, group, operation);
}

std::size_t Admin::discard(Session& session, const DeadGroup& group, const Operation& operation) {
  return discard_all(box_of(queue_), &session, group, operation);
}

std::size_t Admin::postpone(std::span<const DeliveryKey> deliveries, When when,
                            const Operation& operation) {
  return postpone_all(box_of(queue_), nullptr, deliveries, when, operation);
}

std::size_t Admin::postpone(Session& session, std::span<const DeliveryKey> deliveries, When when,
                            const Operation& operation) {
  return postpone_all(box_of(queue_), &session, deliveries, when, operation);
}

std::size_t Admin::postpone(const Filter& filter, When when, const Operation& operation) {
  return postpone_all(box_of(queue_), nullptr, or_else(StateFilter::open, filter), when, operation);
}

std::size_t Admin::postpone(Session& session, const Filter& filter, When when,
                            const Operation& operation) {
  return postpone_all(box_of(queue_), &session, or_else(StateFilter::open, filter), when,
                      operation);
}

}  // namespace twinbox
