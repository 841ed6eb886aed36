#include "queue/admin_act.hpp"

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
  explicit Named(std::span<const DutyKey> duties) : unique_(duties.begin(), duties.end()) {
    for (const DutyKey& duty : unique_) {
      numbers_.emplace_back(duty.number);
      handlers_.emplace_back(duty.handler.view());
    }
  }
  [[nodiscard]] bool empty() const noexcept { return numbers_.empty(); }
  [[nodiscard]] Arg numbers() const { return {"number", ValueType::integer, numbers_}; }
  [[nodiscard]] Arg handlers() const { return {"handler", ValueType::text, handlers_}; }

 private:
  std::set<DutyKey> unique_;
  std::vector<Value> numbers_;
  std::vector<Value> handlers_;
};

std::size_t run_named(const Box& box, Session& session, const Statement& statement,
                      std::span<const DutyKey> duties, std::initializer_list<Arg> more) {
  const Named named(duties);
  if (named.empty()) return 0;
  std::vector<Arg> args{named.numbers(), named.handlers(), box.now()};
  args.insert(args.end(), more.begin(), more.end());
  std::size_t changed = 0;
  box.run(session, statement, args, [&](const Row&) { ++changed; });
  return changed;
}

void check_requeue(Duration delay, const Act& act) {
  check_act(act);
  if (delay != Duration::zero()) require_delay(delay);
}

void check_discard(const Act& act) {
  check_act(act);
  if (act.reason.empty() && !act.dry_run)
    throw std::invalid_argument("reason: empty, say why the messages are thrown away");
}

void check_postpone(const When& when, const Act& act) {
  check_act(act);
  const Duration* delay = std::get_if<Duration>(&when);
  if (delay != nullptr && *delay != Duration::zero()) require_delay(*delay);
}

bool is_open(DutyState state) noexcept { return state < DutyState::done; }

/// An act: its name, what was asked for, which duties it is for, and how it is done.
struct Deed {
  std::string_view name;
  Content content;
  std::function<bool(const Entry&)> fits;
  std::function<std::size_t(Session&, std::span<const DutyKey>, const Operation::State&)> apply;
};

Deed requeue_deed(const Box& box, Duration delay) {
  return {.name = "requeue",
          .content = Content{}.add(delay.count()),
          .fits =
              [](const Entry& entry) {
                return entry.duty.state == DutyState::dead && entry.message.has_content;
              },
          .apply = [&box, delay](Session& session, std::span<const DutyKey> keys,
                                 const auto&) { return requeue_some(box, session, keys, delay); }};
}

Deed discard_deed(const Box& box, const Act& act) {
  return {.name = "discard",
          .content = {},
          .fits =
              [](const Entry& entry) {
                return entry.duty.state == DutyState::dead || is_open(entry.duty.state);
              },
          .apply =
              [&box, &act](Session& session, std::span<const DutyKey> keys, const auto&) {
                return run_named(box, session, box.sql().discard, keys, {{"reason", act.reason}});
              }};
}

Deed postpone_deed(const Box& box, const When& when) {
  const Duration* delay = std::get_if<Duration>(&when);
  Content content;
  if (delay != nullptr) {
    content.add("after").add(delay->count());
  } else {
    content.add("at").add(std::get<Instant>(when).time_since_epoch().count());
  }
  return {.name = "postpone",
          .content = content,
          .fits =
              [](const Entry& entry) {
                return entry.duty.state == DutyState::ready ||
                       entry.duty.state == DutyState::scheduled;
              },
          .apply =
              [&box, when](Session& session, std::span<const DutyKey> keys,
                           const Operation::State& state) {
                // Every batch means the same time.
                const Duration* after = std::get_if<Duration>(&when);
                const Instant until = after != nullptr ? state.started_at + *after
                                                       : not_before_1970(std::get<Instant>(when));
                return run_named(box, session, box.sql().postpone, keys, {{"until", Value{until}}});
              }};
}

/// Only those that look like the group.
Deed within(const DeadGroup& group, Deed deed) {
  deed.content.add("group").add(group.error);
  deed.fits = [group, fits = std::move(deed.fits)](const Entry& entry) {
    const auto& topic = entry.message.topic;
    return fits(entry) && (topic ? topic->view() : std::string_view{}) == group.topic &&
           normalise_error(entry.duty.last_error) == group.error;
  };
  return deed;
}

Filter group_filter(const DeadGroup& group) {
  Filter filter{.state = StateFilter::dead};
  if (!group.topic.empty()) filter.topic = Topic{group.topic, Trusted{}};
  filter.handler = group.handler;
  return filter;
}

/// The duties of a page that the deed is for, at most `room`.
std::vector<DutyKey> fitting(const Page& page, const Deed& deed, std::int64_t room,
                             const std::optional<Instant>& died_before) {
  std::vector<DutyKey> keys;
  for (const Entry& entry : page.entries) {
    if (static_cast<std::int64_t>(keys.size()) >= room) break;
    if (died_before && entry.duty.finished_at && *entry.duty.finished_at > *died_before) continue;
    if (deed.fits(entry)) keys.push_back(entry.duty.key);
  }
  return keys;
}

/// How many the deed is for, page after page.
std::size_t count_fitting(Box& box, Session* callers, const Filter& filter, const Act& act,
                          const Deed& deed) {
  std::size_t count = 0;
  std::optional<DutyKey> after;
  do {
    const Page page = look(box, callers, [&](Session& session) {
      return list_page(box, session, filter, act.batch, after);
    });
    count += fitting(page, deed, act.limit - static_cast<std::int64_t>(count), {}).size();
    after = page.next;
  } while (after && static_cast<std::int64_t>(count) < act.limit);
  return count;
}

/// Looks up page after page and does the deed to what fits: one transaction for each page, unless
/// it is the caller's.
std::size_t act_on(Box& box, Session* callers, const Filter& filter, const Act& act, Deed deed) {
  if (callers != nullptr) box.checked(*callers);
  if (act.dry_run) return count_fitting(box, callers, filter, act, deed);
  deed.content.add("filter").add(filter);
  return carry_out(Operation{box, deed.name, act, deed.content}, callers,
                   [&](Session& session, const Operation::State& state) -> Operation::Batch {
                     const Page page = list_page(box, session, filter, act.batch, state.position);
                     const std::int64_t room = act.limit - static_cast<std::int64_t>(state.changed);
                     // What has died since the first batch is none of those that were meant.
                     const auto died_before =
                         state.position ? std::optional{state.started_at} : std::nullopt;
                     const std::vector<DutyKey> keys = fitting(page, deed, room, died_before);
                     return {deed.apply(session, keys, state), page.next};
                   });
}

/// How many of the named duties the deed is for.
std::size_t count_fitting(const Box& box, Session& session, std::span<const DutyKey> duties,
                          const Deed& deed) {
  std::size_t count = 0;
  for (const DutyKey& duty : duties) {
    const Page page = list_page(box, session, {}, 1, DutyKey{duty.number + 1});
    for (const Entry& entry : page.entries) {
      if (entry.duty.key == duty && deed.fits(entry)) ++count;
    }
  }
  return count;
}

/// Does the deed to the named duties: in batches, or in the caller's transaction.
std::size_t act_on(Box& box, Session* callers, std::span<const DutyKey> duties, const Act& act,
                   Deed deed) {
  if (callers != nullptr) box.checked(*callers);
  const std::vector<DutyKey> keys = in_order(duties, act.limit);
  if (act.dry_run) {
    return look(box, callers,
                [&](Session& session) { return count_fitting(box, session, keys, deed); });
  }
  deed.content.add("duties").add(keys);
  return carry_out(Operation{box, deed.name, act, deed.content}, callers,
                   [&](Session& session, const Operation::State& state) -> Operation::Batch {
                     const std::span<const DutyKey> batch = next_batch(keys, state, act);
                     return {deed.apply(session, batch, state), position_after(batch, keys)};
                   });
}

/// A group is a filter, and of that only what looks like it.
std::size_t act_on(Box& box, Session* callers, const DeadGroup& group, const Act& act, Deed deed) {
  return act_on(box, callers, group_filter(group), act, within(group, std::move(deed)));
}

/// The acts on duties, a filter or a group; with a session, in the caller's transaction.
std::size_t requeue_all(Box& box, Session* callers, const auto& chosen, Duration delay,
                        const Act& act) {
  check_requeue(delay, act);
  return act_on(box, callers, chosen, act, requeue_deed(box, delay));
}

std::size_t discard_all(Box& box, Session* callers, const auto& chosen, const Act& act) {
  check_discard(act);
  return act_on(box, callers, chosen, act, discard_deed(box, act));
}

std::size_t postpone_all(Box& box, Session* callers, const auto& chosen, const When& when,
                         const Act& act) {
  check_postpone(when, act);
  return act_on(box, callers, chosen, act, postpone_deed(box, when));
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

void check_act(const Act& act) {
  if (act.limit <= 0) throw std::out_of_range("limit: must be at least 1");
  require_limit(act.batch);
  if (!act.actor.empty()) check_text("actor", act.actor, 255);
  if (!act.reason.empty()) check_text("reason", act.reason, 4000);
  if (!act.operation_id.empty()) check_text("operation id", act.operation_id, 200);
}

std::size_t requeue_some(const Box& box, Session& session, std::span<const DutyKey> duties,
                         Duration delay) {
  return run_named(box, session, box.sql().requeue, duties, {{"delay", micros(delay)}});
}

std::size_t Admin::requeue(std::span<const DutyKey> duties, Duration delay, const Act& act) {
  return requeue_all(queue_.box(), nullptr, duties, delay, act);
}

std::size_t Admin::requeue(Session& session, std::span<const DutyKey> duties, Duration delay,
                           const Act& act) {
  return requeue_all(queue_.box(), &session, duties, delay, act);
}

std::size_t Admin::requeue(const Filter& filter, Duration delay, const Act& act) {
  return requeue_all(queue_.box(), nullptr, or_else(StateFilter::dead, filter), delay, act);
}

std::size_t Admin::requeue(Session& session, const Filter& filter, Duration delay, const Act& act) {
  return requeue_all(queue_.box(), &session, or_else(StateFilter::dead, filter), delay, act);
}

std::size_t Admin::requeue(const DeadGroup& group, Duration delay, const Act& act) {
  return requeue_all(queue_.box(), nullptr, group, delay, act);
}

std::size_t Admin::requeue(Session& session, const DeadGroup& group, Duration delay,
                           const Act& act) {
  return requeue_all(queue_.box(), &session, group, delay, act);
}

std::size_t Admin::discard(std::span<const DutyKey> duties, const Act& act) {
  return discard_all(queue_.box(), nullptr, duties, act);
}

std::size_t Admin::discard(Session& session, std::span<const DutyKey> duties, const Act& act) {
  return discard_all(queue_.box(), &session, duties, act);
}

std::size_t Admin::discard(const Filter& filter, const Act& act) {
  return discard_all(queue_.box(), nullptr, with_state(filter), act);
}

std::size_t Admin::discard(Session& session, const Filter& filter, const Act& act) {
  return discard_all(queue_.box(), &session, with_state(filter), act);
}

std::size_t Admin::discard(const DeadGroup& group, const Act& act) {
  return discard_all(queue_.box(), nullptr, group, act);
}

std::size_t Admin::discard(Session& session, const DeadGroup& group, const Act& act) {
  return discard_all(queue_.box(), &session, group, act);
}

std::size_t Admin::postpone(std::span<const DutyKey> duties, When when, const Act& act) {
  return postpone_all(queue_.box(), nullptr, duties, when, act);
}

std::size_t Admin::postpone(Session& session, std::span<const DutyKey> duties, When when,
                            const Act& act) {
  return postpone_all(queue_.box(), &session, duties, when, act);
}

std::size_t Admin::postpone(const Filter& filter, When when, const Act& act) {
  return postpone_all(queue_.box(), nullptr, or_else(StateFilter::open, filter), when, act);
}

std::size_t Admin::postpone(Session& session, const Filter& filter, When when, const Act& act) {
  return postpone_all(queue_.box(), &session, or_else(StateFilter::open, filter), when, act);
}

}  // namespace twinbox
