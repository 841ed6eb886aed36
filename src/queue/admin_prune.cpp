// Deletes whole finished messages for an operator.
#include "database/answer_timeout.hpp"
#include "queue/admin_list.hpp"
#include "queue/admin_operation.hpp"

namespace twinbox {
namespace {

/// Whole messages: their rows are locked first, and their deliveries are read under the lock.
std::size_t prune_messages(const Box& box, Session& session,
                           const std::vector<std::int64_t>& numbers) {
  if (numbers.empty()) return 0;
  const std::vector<Value> values(numbers.begin(), numbers.end());
  const Arg number{"number", ValueType::integer, values};
  box.run(session, box.sql().lock_messages, {number});
  std::size_t deleted = 0;
  // Whatever their age, even if the clock has stepped back since they were finished.
  const Arg retention{"retention", micros(-ever)};
  box.run(session, box.sql().prune,
          {number, retention, {"dead", Value{false}}, {"seen", Value{false}}, box.now()},
          [&](const Row&) { ++deleted; });
  return deleted;
}

/// The messages of a page whose every delivery is finished, each once.
std::vector<std::int64_t> finished_messages(const Box& box, Session& session, const Page& page) {
  std::vector<std::int64_t> numbers;
  for (const DeliveryEntry& entry : page.entries) {
    const std::int64_t number = entry.message.number;
    if (!numbers.empty() && numbers.back() == number) continue;
    const Page whole = list_page(box, session, {}, 1, DeliveryKey{number + 1});
    const bool finished =
        std::all_of(whole.entries.begin(), whole.entries.end(), [](const DeliveryEntry& one) {
          const DeliveryState state = one.delivery.state;
          return state == DeliveryState::done || state == DeliveryState::discarded ||
                 state == DeliveryState::marked;
        });
    if (finished) numbers.push_back(number);
  }
  return numbers;
}

std::size_t count_finished(const Box& box, Session& session,
                           std::span<const DeliveryKey> messages) {
  std::size_t count = 0;
  for (const DeliveryKey& message : messages) {
    Page page = list_page(box, session, {}, 1, DeliveryKey{message.number + 1});
    std::erase_if(page.entries, [&](const DeliveryEntry& entry) {
      return entry.message.number != message.number;
    });
    count += finished_messages(box, session, page).size();
  }
  return count;
}

/// The number of each message as the position of an operation that walks over messages.
std::vector<DeliveryKey> keys_of(std::span<const std::int64_t> numbers,
                                 const Operation& operation) {
  std::vector<DeliveryKey> messages;
  for (const std::int64_t number : in_order(numbers, operation.limit)) messages.push_back({number});
  return messages;
}

std::size_t prune_numbers(Box& box, Session* callers, std::span<const std::int64_t> numbers,
                          const Operation& operation) {
  check_operation(operation);
  if (callers != nullptr) box.require_usable(*callers);
  const std::vector<DeliveryKey> messages = keys_of(numbers, operation);
  if (operation.dry_run) {
    return look(box, callers,
                [&](Session& session) { return count_finished(box, session, messages); });
  }
  return carry_out(
      OperationRecord{box, "prune", operation, OperationFingerprint{}.add("numbers").add(messages)},
      callers,
      [&](Session& session, const OperationRecord::State& state) -> OperationRecord::Batch {
        const std::span<const DeliveryKey> batch = next_batch(messages, state, operation);
        std::vector<std::int64_t> some;
        for (const DeliveryKey& message : batch) some.push_back(message.number);
        return {prune_messages(box, session, some), position_after(batch, messages)};
      });
}

std::size_t count_finished(Box& box, Session* callers, const Filter& filter,
                           const Operation& operation) {
  std::size_t count = 0;
  std::optional<DeliveryKey> after;
  do {
    count += look(box, callers, [&](Session& session) {
      const Page page = list_page(box, session, filter, operation.batch, after);
      after = page.next;
      return finished_messages(box, session, page).size();
    });
  } while (after && static_cast<std::int64_t>(count) < operation.limit);
  return std::min(count, static_cast<std::size_t>(operation.limit));
}

std::size_t prune_filter(Box& box, Session* callers, const Filter& filter,
                         const Operation& operation) {
  check_operation(operation);
  if (callers != nullptr) box.require_usable(*callers);
  if (operation.dry_run) return count_finished(box, callers, filter, operation);
  return carry_out(
      OperationRecord{box, "prune", operation, OperationFingerprint{}.add("filter").add(filter)},
      callers,
      [&](Session& session, const OperationRecord::State& state) -> OperationRecord::Batch {
        const Page page = list_page(box, session, filter, operation.batch, state.position);
        std::vector<std::int64_t> numbers = finished_messages(box, session, page);
        const auto room = static_cast<std::size_t>(operation.limit) -
                          std::min(state.changed, static_cast<std::size_t>(operation.limit));
        if (numbers.size() > room) numbers.resize(room);
        return {prune_messages(box, session, numbers), page.next};
      });
}

}  // namespace

std::size_t Admin::prune(std::span<const std::int64_t> numbers, const Operation& operation) {
  const WithoutAnswerTimeout unlimited;
  return prune_numbers(box_of(queue_), nullptr, numbers, operation);
}

std::size_t Admin::prune(Session& session, std::span<const std::int64_t> numbers,
                         const Operation& operation) {
  return prune_numbers(box_of(queue_), &session, numbers, operation);
}

std::size_t Admin::prune(const Filter& filter, const Operation& operation) {
  const WithoutAnswerTimeout unlimited;
  return prune_filter(box_of(queue_), nullptr, filter, operation);
}

std::size_t Admin::prune(Session& session, const Filter& filter, const Operation& operation) {
  return prune_filter(box_of(queue_), &session, filter, operation);
}

}  // namespace twinbox
