#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/json.hpp"
#include "core/text.hpp"
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
  if (!act.actor.empty()) check_text("actor", act.actor, 255);
  if (!act.reason.empty()) check_text("reason", act.reason, 4000);
}

void check_requeue(Duration delay, const Act& act) {
  check_act(act);
  if (delay != Duration::zero()) require_delay(delay);
}

void check_discard(const Act& act) {
  check_act(act);
  if (act.reason.empty())
    throw std::invalid_argument("reason: empty, say why the messages are thrown away");
}

/// An act: which duties it is for, and how it is done.
struct Deed {
  std::function<bool(const Entry&)> fits;
  std::function<std::size_t(Session&, std::span<const DutyKey>)> apply;
};

bool is_open(DutyState state) noexcept { return state < DutyState::done; }

Deed requeue_deed(const Box& box, Duration delay, const Act& act) {
  return {.fits =
              [](const Entry& entry) {
                return entry.duty.state == DutyState::dead && entry.message.has_content;
              },
          .apply =
              [&box, delay, &act](Session& session, std::span<const DutyKey> keys) {
                return requeue_some(box, session, keys, delay, act);
              }};
}

Deed discard_deed(const Box& box, const Act& act) {
  return {.fits =
              [](const Entry& entry) {
                return entry.duty.state == DutyState::dead || is_open(entry.duty.state);
              },
          .apply =
              [&box, &act](Session& session, std::span<const DutyKey> keys) {
                return discard_some(box, session, keys, act);
              }};
}

/// Only those that look like the group.
Deed within(const DeadGroup& group, Deed deed) {
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

/// Looks up page after page and does the deed to what fits: one transaction for each page.
std::size_t act_on(Box& box, const Filter& filter, const Act& act, const Deed& deed) {
  std::size_t changed = 0;
  std::optional<DutyKey> after;
  do {
    const std::int64_t room = act.limit - static_cast<std::int64_t>(changed);
    if (room <= 0) break;
    std::optional<DutyKey> next;
    const Access access = act.dry_run ? Access::read : Access::write;
    changed += box.own(access, Scope::transaction, [&](Session& session) {
      const Page page = list_page(box, session, filter, act.batch, after);
      next = page.next;
      std::vector<DutyKey> keys;
      for (const Entry& entry : page.entries) {
        if (static_cast<std::int64_t>(keys.size()) < room && deed.fits(entry))
          keys.push_back(entry.duty.key);
      }
      return act.dry_run ? keys.size() : deed.apply(session, keys);
    });
    after = next;
  } while (after);
  box.wake();
  return changed;
}

/// How many of the named duties the deed is for.
std::size_t count_fitting(const Box& box, Session& session, std::span<const DutyKey> duties,
                          const Deed& deed) {
  std::size_t count = 0;
  for (const DutyKey& duty : std::set<DutyKey>(duties.begin(), duties.end())) {
    const Page page = list_page(box, session, {}, 1, DutyKey{duty.number + 1});
    for (const Entry& entry : page.entries) {
      if (entry.duty.key == duty && deed.fits(entry)) ++count;
    }
  }
  return count;
}

/// Does the deed to the named duties in the caller's transaction.
std::size_t act_on(const Box& box, Session& session, std::span<const DutyKey> duties,
                   const Act& act, const Deed& deed) {
  const auto capped = duties.first(std::min(duties.size(), static_cast<std::size_t>(act.limit)));
  return act.dry_run ? count_fitting(box, session, capped, deed) : deed.apply(session, capped);
}

/// Does the deed to the named duties in batches.
std::size_t act_on(Box& box, std::span<const DutyKey> duties, const Act& act, const Deed& deed) {
  const std::size_t limit = std::min(duties.size(), static_cast<std::size_t>(act.limit));
  const Access access = act.dry_run ? Access::read : Access::write;
  std::size_t changed = 0;
  for (std::size_t at = 0; at < limit;) {
    const auto chunk =
        duties.subspan(at, std::min(limit - at, static_cast<std::size_t>(act.batch)));
    changed += box.own(access, Scope::transaction,
                       [&](Session& session) { return act_on(box, session, chunk, act, deed); });
    at += chunk.size();
  }
  box.wake();
  return changed;
}

/// Whole messages: their rows are locked first, and what they have is looked at under the lock.
std::size_t prune_messages(const Box& box, Session& session, std::span<const std::int64_t> numbers,
                           const Act& act) {
  std::vector<Value> values;
  for (const std::int64_t number : std::set<std::int64_t>(numbers.begin(), numbers.end()))
    values.emplace_back(number);
  if (values.empty()) return 0;
  const Arg number{"number", ValueType::integer, values};
  return all_or_nothing(session, [&] {
    box.run(session, box.sql().lock_messages, {number});
    std::size_t deleted = 0;
    box.run(session, box.sql().prune,
            {number, {"retention", 0}, {"dead", Value{false}}, {"seen", Value{false}}, box.now()},
            [&](const Row&) { ++deleted; });
    write_audit(box, session, "prune", deleted, act);
    return deleted;
  });
}

/// The messages of a page whose every duty is finished, each once.
std::vector<std::int64_t> finished_messages(const Box& box, Session& session, const Page& page) {
  std::vector<std::int64_t> numbers;
  for (const Entry& entry : page.entries) {
    const std::int64_t number = entry.message.number;
    if (!numbers.empty() && numbers.back() == number) continue;
    const Page whole = list_page(box, session, {}, 1, DutyKey{number + 1});
    const bool finished =
        std::all_of(whole.entries.begin(), whole.entries.end(), [](const Entry& one) {
          const DutyState state = one.duty.state;
          return state == DutyState::done || state == DutyState::discarded ||
                 state == DutyState::marked;
        });
    if (finished) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::size_t Admin::requeue(std::span<const DutyKey> duties, Duration delay, const Act& act) {
  check_requeue(delay, act);
  return act_on(queue_.box(), duties, act, requeue_deed(queue_.box(), delay, act));
}

std::size_t Admin::requeue(Session& session, std::span<const DutyKey> duties, Duration delay,
                           const Act& act) {
  check_requeue(delay, act);
  const Box& box = queue_.box();
  return act_on(box, box.checked(session), duties, act, requeue_deed(box, delay, act));
}

std::size_t Admin::requeue(const Filter& filter, Duration delay, const Act& act) {
  check_requeue(delay, act);
  Filter dead = filter;
  if (dead.state == StateFilter::any) dead.state = StateFilter::dead;
  return act_on(queue_.box(), dead, act, requeue_deed(queue_.box(), delay, act));
}

std::size_t Admin::requeue(const DeadGroup& group, Duration delay, const Act& act) {
  check_requeue(delay, act);
  return act_on(queue_.box(), group_filter(group), act,
                within(group, requeue_deed(queue_.box(), delay, act)));
}

std::size_t Admin::discard(std::span<const DutyKey> duties, const Act& act) {
  check_discard(act);
  return act_on(queue_.box(), duties, act, discard_deed(queue_.box(), act));
}

std::size_t Admin::discard(Session& session, std::span<const DutyKey> duties, const Act& act) {
  check_discard(act);
  const Box& box = queue_.box();
  return act_on(box, box.checked(session), duties, act, discard_deed(box, act));
}

std::size_t Admin::discard(const Filter& filter, const Act& act) {
  check_discard(act);
  if (filter.state == StateFilter::any) {
    throw std::invalid_argument("state: any, say whether open or dead messages are thrown away");
  }
  return act_on(queue_.box(), filter, act, discard_deed(queue_.box(), act));
}

std::size_t Admin::discard(const DeadGroup& group, const Act& act) {
  check_discard(act);
  return act_on(queue_.box(), group_filter(group), act,
                within(group, discard_deed(queue_.box(), act)));
}

std::size_t Admin::prune(std::span<const std::int64_t> numbers, const Act& act) {
  check_act(act);
  Box& box = queue_.box();
  const std::size_t limit = std::min(numbers.size(), static_cast<std::size_t>(act.limit));
  std::size_t deleted = 0;
  for (std::size_t at = 0; at < limit;) {
    const auto chunk =
        numbers.subspan(at, std::min(limit - at, static_cast<std::size_t>(act.batch)));
    deleted += box.own(Access::write, Scope::transaction, [&](Session& session) -> std::size_t {
      if (!act.dry_run) return prune_messages(box, session, chunk, act);
      std::size_t count = 0;
      for (const std::int64_t number : std::set<std::int64_t>(chunk.begin(), chunk.end())) {
        Page page = list_page(box, session, {}, 1, DutyKey{number + 1});
        std::erase_if(page.entries,
                      [&](const Entry& entry) { return entry.message.number != number; });
        count += finished_messages(box, session, page).size();
      }
      return count;
    });
    at += chunk.size();
  }
  return deleted;
}

std::size_t Admin::prune(const Filter& filter, const Act& act) {
  check_act(act);
  Box& box = queue_.box();
  std::size_t deleted = 0;
  std::optional<DutyKey> after;
  do {
    const std::int64_t room = act.limit - static_cast<std::int64_t>(deleted);
    if (room <= 0) break;
    std::optional<DutyKey> next;
    deleted += box.own(Access::write, Scope::transaction, [&](Session& session) {
      const Page page = list_page(box, session, filter, act.batch, after);
      next = page.next;
      std::vector<std::int64_t> numbers = finished_messages(box, session, page);
      if (static_cast<std::int64_t>(numbers.size()) > room)
        numbers.resize(static_cast<std::size_t>(room));
      return act.dry_run ? numbers.size() : prune_messages(box, session, numbers, act);
    });
    after = next;
  } while (after);
  return deleted;
}

bool Admin::edit(std::int64_t number, const Edit& change, const Act& act) {
  return queue_.box().own(Access::write, Scope::transaction,
                          [&](Session& session) { return edit(session, number, change, act); });
}

bool Admin::edit(Session& session, std::int64_t number, const Edit& change, const Act& act) {
  if (change.headers && !is_json_object(*change.headers)) {
    throw std::invalid_argument("headers: not a JSON object");
  }
  if (change.content_type) check_text("content type", *change.content_type, 1000);
  check_act(act);
  if (act.dry_run) throw UsageError("edit: a single edit knows no dry run; read it by get()");
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
