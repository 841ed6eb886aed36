#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/json.hpp"
#include "queue/admin_list.hpp"

namespace twinbox {
namespace {

void write_audit(const Box& box, Session& session, std::string_view act_name, std::size_t affected,
                 const Act& act) {
  if (affected == 0) return;
  const auto text = [](const std::string& value) {
    return value.empty() ? Value{} : Value{std::string_view{value}};
  };
  box.run(session, box.sql().audit,
          {{"number", Value{}},
           {"affected", static_cast<std::int64_t>(affected)},
           {"act", act_name},
           {"actor", text(act.actor)},
           {"reason", text(act.reason)},
           box.now()});
  box.log(LogLevel::info, act_name,
          {{"count", static_cast<std::int64_t>(affected)}, {"actor", std::string_view{act.actor}}});
}

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

std::size_t requeue_some(const Box& box, Session& session, std::span<const DutyKey> duties,
                         Duration delay, const Act& act) {
  const Named named(duties);
  if (named.empty()) return 0;
  return all_or_nothing(session, [&] {
    std::size_t changed = 0;
    box.run(session, box.sql().requeue,
            {named.numbers(), named.handlers(), {"delay", micros(delay)}, box.now()},
            [&](const Row&) { ++changed; });
    write_audit(box, session, "requeue", changed, act);
    return changed;
  });
}

std::size_t discard_some(const Box& box, Session& session, std::span<const DutyKey> duties,
                         const Act& act) {
  const Named named(duties);
  if (named.empty()) return 0;
  return all_or_nothing(session, [&] {
    std::size_t changed = 0;
    box.run(session, box.sql().discard,
            {named.numbers(), named.handlers(), {"reason", act.reason}, box.now()},
            [&](const Row&) { ++changed; });
    write_audit(box, session, "discard", changed, act);
    return changed;
  });
}

void check_act(const Act& act) {
  if (act.limit <= 0) throw std::out_of_range("limit: must be at least 1");
  require_limit(act.batch);
}

void check_requeue(Duration delay, const Act& act) {
  check_act(act);
  if (delay < Duration::zero()) throw std::out_of_range("delay: must not be below zero");
}

void check_discard(const Act& act) {
  check_act(act);
  if (act.reason.empty())
    throw std::invalid_argument("reason: empty, say why the messages are thrown away");
}

using Apply = std::function<std::size_t(Session&, std::span<const DutyKey>)>;
using Fits = std::function<bool(const Entry&)>;

/// Looks up page after page and applies an act to what fits: one transaction for each page.
std::size_t act_on(Box& box, const Filter& filter, const Act& act, const Fits& fits,
                   const Apply& apply) {
  std::size_t changed = 0;
  std::optional<DutyKey> after;
  do {
    const std::int64_t room = act.limit - static_cast<std::int64_t>(changed);
    if (room <= 0) break;
    std::optional<DutyKey> next;
    changed += box.own(act.dry_run ? Access::read : Access::write, Scope::transaction,
                       [&](Session& session) {
                         const Page page = list_page(box, session, filter, act.batch, after);
                         next = page.next;
                         std::vector<DutyKey> keys;
                         for (const Entry& entry : page.entries) {
                           if (static_cast<std::int64_t>(keys.size()) < room && fits(entry))
                             keys.push_back(entry.duty.key);
                         }
                         return act.dry_run ? keys.size() : apply(session, keys);
                       });
    after = next;
  } while (after);
  if (changed > 0) box.wake();
  return changed;
}

/// Applies an act to the named duties in batches.
std::size_t act_on(Box& box, std::span<const DutyKey> duties, const Act& act, const Apply& apply) {
  const std::size_t limit = std::min(duties.size(), static_cast<std::size_t>(act.limit));
  std::size_t changed = 0;
  for (std::size_t at = 0; at < limit;) {
    const auto chunk =
        duties.subspan(at, std::min(limit - at, static_cast<std::size_t>(act.batch)));
    changed += box.own(Access::write, Scope::transaction,
                       [&](Session& session) { return apply(session, chunk); });
    at += chunk.size();
  }
  if (changed > 0) box.wake();
  return changed;
}

bool always(const Entry&) { return true; }

Filter group_filter(const DeadGroup& group) {
  Filter filter{.state = StateFilter::dead};
  if (!group.topic.empty()) filter.topic = Topic{group.topic, Trusted{}};
  filter.handler = group.handler;
  return filter;
}

Fits in_group(const DeadGroup& group) {
  return [error = group.error](const Entry& entry) {
    return normalise_error(entry.duty.last_error) == error;
  };
}

}  // namespace

std::size_t Admin::requeue(std::span<const DutyKey> duties, Duration delay, const Act& act) {
  check_requeue(delay, act);
  Box& box = queue_.box();
  return act_on(box, duties, act, [&](Session& session, std::span<const DutyKey> keys) {
    return requeue_some(box, session, keys, delay, act);
  });
}

std::size_t Admin::requeue(Session& session, std::span<const DutyKey> duties, Duration delay,
                           const Act& act) {
  check_requeue(delay, act);
  return requeue_some(queue_.box(), queue_.box().checked(session), duties, delay, act);
}

std::size_t Admin::requeue(const Filter& filter, Duration delay, const Act& act) {
  check_requeue(delay, act);
  Filter dead = filter;
  if (dead.state == StateFilter::any) dead.state = StateFilter::dead;
  if (dead.state != StateFilter::dead) return 0;
  Box& box = queue_.box();
  return act_on(box, dead, act, always, [&](Session& session, std::span<const DutyKey> keys) {
    return requeue_some(box, session, keys, delay, act);
  });
}

std::size_t Admin::requeue(const DeadGroup& group, Duration delay, const Act& act) {
  check_requeue(delay, act);
  Box& box = queue_.box();
  return act_on(box, group_filter(group), act, in_group(group),
                [&](Session& session, std::span<const DutyKey> keys) {
                  return requeue_some(box, session, keys, delay, act);
                });
}

std::size_t Admin::discard(std::span<const DutyKey> duties, const Act& act) {
  check_discard(act);
  Box& box = queue_.box();
  return act_on(box, duties, act, [&](Session& session, std::span<const DutyKey> keys) {
    return discard_some(box, session, keys, act);
  });
}

std::size_t Admin::discard(Session& session, std::span<const DutyKey> duties, const Act& act) {
  check_discard(act);
  return discard_some(queue_.box(), queue_.box().checked(session), duties, act);
}

std::size_t Admin::discard(const Filter& filter, const Act& act) {
  check_discard(act);
  Box& box = queue_.box();
  const Apply apply = [&](Session& session, std::span<const DutyKey> keys) {
    return discard_some(box, session, keys, act);
  };
  if (filter.state != StateFilter::any) return act_on(box, filter, act, always, apply);
  Filter one = filter;
  one.state = StateFilter::dead;
  const std::size_t dead = act_on(box, one, act, always, apply);
  if (static_cast<std::int64_t>(dead) >= act.limit) return dead;
  Act rest = act;
  rest.limit = act.limit - static_cast<std::int64_t>(dead);
  one.state = StateFilter::open;
  return dead + act_on(box, one, rest, always, apply);
}

std::size_t Admin::discard(const DeadGroup& group, const Act& act) {
  check_discard(act);
  Box& box = queue_.box();
  return act_on(box, group_filter(group), act, in_group(group),
                [&](Session& session, std::span<const DutyKey> keys) {
                  return discard_some(box, session, keys, act);
                });
}

bool Admin::edit(std::int64_t number, const Edit& change, const Act& act) {
  return queue_.box().own(Access::write, Scope::transaction,
                          [&](Session& session) { return edit(session, number, change, act); });
}

bool Admin::edit(Session& session, std::int64_t number, const Edit& change, const Act& act) {
  if (change.headers && !is_json_object(*change.headers)) {
    throw std::invalid_argument("headers: not a JSON object");
  }
  Box& box = queue_.box();
  const auto text = [](const std::optional<std::string>& value) {
    return value ? Value{std::string_view{*value}} : Value{};
  };
  const bool changed =
      box.run(box.checked(session), box.sql().edit,
              {{"number", number},
               {"payload", change.payload ? Value{Bytes{*change.payload}} : Value{}},
               {"headers", text(change.headers)},
               {"content_type", text(change.content_type)},
               {"actor", act.actor},
               {"reason", act.reason},
               box.now()}) > 0;
  box.log(LogLevel::info, "edit",
          {{"number", number}, {"actor", std::string_view{act.actor}}, {"changed", changed}});
  return changed;
}

}  // namespace twinbox
