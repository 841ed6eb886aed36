// The common part of the operations.
#pragma once

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "queue/operation.hpp"

namespace twinbox {

/// Throws std::out_of_range or std::invalid_argument naming the invalid option.
void check_operation(const Operation& operation);

/// Dead becomes ready again, in one transaction and without an audit entry.
std::size_t requeue_some(const Box& box, Session& session, std::span<const DeliveryKey> deliveries,
                         Duration delay);

/// A read in a transaction of our own or, with a session, in the caller's transaction.
template <class Look>
auto look(Box& box, Session* callers, const Look& work) {
  return callers != nullptr ? work(*callers)
                            : box.in_own_transaction(Access::read, Scope::transaction, work);
}

/// In batches, or in the caller's transaction.
inline std::size_t carry_out(OperationRecord operation, Session* callers,
                             const OperationRecord::Step& step) {
  return callers != nullptr ? operation.run(*callers, step) : operation.run(step);
}

/// The first `limit` of them, in order and each once.
template <class T>
std::vector<T> in_order(std::span<const T> all, std::int64_t limit) {
  std::set<T> unique;
  for (const T& one : all) {
    if (static_cast<std::int64_t>(unique.size()) == limit) break;
    unique.insert(one);
  }
  return {unique.begin(), unique.end()};
}

/// The next batch of `keys` after a position.
inline std::span<const DeliveryKey> next_batch(const std::vector<DeliveryKey>& keys,
                                               const OperationRecord::State& state,
                                               const Operation& operation) {
  const auto begin =
      state.position ? std::ranges::upper_bound(keys, *state.position) : keys.begin();
  const auto count = std::min<std::int64_t>(operation.batch, keys.end() - begin);
  return {begin, static_cast<std::size_t>(count)};
}

/// Empty: it was the last batch.
inline std::optional<DeliveryKey> position_after(std::span<const DeliveryKey> batch,
                                                 const std::vector<DeliveryKey>& keys) {
  if (batch.empty() || batch.back() == keys.back()) return std::nullopt;
  return batch.back();
}

}  // namespace twinbox
