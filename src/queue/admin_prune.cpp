// Whole finished messages, deleted by a person.
#include "database/answer_limit.hpp"
#include "queue/admin_act.hpp"
#include "queue/admin_list.hpp"

namespace twinbox {
namespace {

/// Whole messages: their rows are locked first, and what they have is looked at under the lock.
std::size_t prune_messages(const Box& box, Session& session,
                           const std::vector<std::int64_t>& numbers) {
  if (numbers.empty()) return 0;
  const std::vector<Value> values(numbers.begin(), numbers.end());
  const Arg number{"number", ValueType::integer, values};
  box.run(session, box.sql().lock_messages, {number});
  std::size_t deleted = 0;
  // Whatever their age, also when the clock has stepped back since they were finished.
  const Arg retention{"retention", micros(-ever)};
  box.run(session, box.sql().prune,
          {number, retention, {"dead", Value{false}}, {"seen", Value{false}}, box.now()},
          [&](const Row&) { ++deleted; });
  return deleted;
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

std::size_t count_finished(const Box& box, Session& session, std::span<const DutyKey> messages) {
  std::size_t count = 0;
  for (const DutyKey& message : messages) {
    Page page = list_page(box, session, {}, 1, DutyKey{message.number + 1});
    std::erase_if(page.entries,
                  [&](const Entry& entry) { return entry.message.number != message.number; });
    count += finished_messages(box, session, page).size();
  }
  return count;
}

/// The number of each message as the place of an operation that goes from one to the next.
std::vector<DutyKey> places_of(std::span<const std::int64_t> numbers, const Act& act) {
  std::vector<DutyKey> messages;
  for (const std::int64_t number : in_order(numbers, act.limit)) messages.push_back({number});
  return messages;
}

std::size_t prune_numbers(Box& box, Session* callers, std::span<const std::int64_t> numbers,
                          const Act& act) {
  check_act(act);
  if (callers != nullptr) box.checked(*callers);
  const std::vector<DutyKey> messages = places_of(numbers, act);
  if (act.dry_run) {
    return look(box, callers,
                [&](Session& session) { return count_finished(box, session, messages); });
  }
  return carry_out(Operation{box, "prune", act, Content{}.add("numbers").add(messages)}, callers,
                   [&](Session& session, const Operation::State& state) -> Operation::Batch {
                     const std::span<const DutyKey> batch = next_batch(messages, state, act);
                     std::vector<std::int64_t> some;
                     for (const DutyKey& message : batch) some.push_back(message.number);
                     return {prune_messages(box, session, some), position_after(batch, messages)};
                   });
}

std::size_t count_finished(Box& box, Session* callers, const Filter& filter, const Act& act) {
  std::size_t count = 0;
  std::optional<DutyKey> after;
  do {
    count += look(box, callers, [&](Session& session) {
      const Page page = list_page(box, session, filter, act.batch, after);
      after = page.next;
      return finished_messages(box, session, page).size();
    });
  } while (after && static_cast<std::int64_t>(count) < act.limit);
  return std::min(count, static_cast<std::size_t>(act.limit));
}

std::size_t prune_filter(Box& box, Session* callers, const Filter& filter, const Act& act) {
  check_act(act);
  if (callers != nullptr) box.checked(*callers);
  if (act.dry_run) return count_finished(box, callers, filter, act);
  return carry_out(Operation{box, "prune", act, Content{}.add("filter").add(filter)}, callers,
                   [&](Session& session, const Operation::State& state) -> Operation::Batch {
                     const Page page = list_page(box, session, filter, act.batch, state.position);
                     std::vector<std::int64_t> numbers = finished_messages(box, session, page);
                     const auto room = static_cast<std::size_t>(act.limit) -
                                       std::min(state.changed, static_cast<std::size_t>(act.limit));
                     if (numbers.size() > room) numbers.resize(room);
                     return {prune_messages(box, session, numbers), page.next};
                   });
}

}  // namespace

std::size_t Admin::prune(std::span<const std::int64_t> numbers, const Act& act) {
  const WithoutAnswerLimit unlimited;
  return prune_numbers(queue_.box(), nullptr, numbers, act);
}

std::size_t Admin::prune(Session& session, std::span<const std::int64_t> numbers, const Act& act) {
  return prune_numbers(queue_.box(), &session, numbers, act);
}

std::size_t Admin::prune(const Filter& filter, const Act& act) {
  const WithoutAnswerLimit unlimited;
  return prune_filter(queue_.box(), nullptr, filter, act);
}

std::size_t Admin::prune(Session& session, const Filter& filter, const Act& act) {
  return prune_filter(queue_.box(), &session, filter, act);
}

}  // namespace twinbox
