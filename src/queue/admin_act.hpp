// What acts have in common.
#pragma once

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "queue/operation.hpp"

namespace twinbox {

/// Throws std::out_of_range or std::invalid_argument that names what cannot be.
void check_act(const Act& act);

/// Dead becomes ready again, in one transaction and without a line in the audit.
std::size_t requeue_some(const Box& box, Session& session, std::span<const DutyKey> duties,
                         Duration delay);

/// A look of our own or, with a session, a part of the caller's transaction.
template <class Look>
auto look(Box& box, Session* callers, const Look& work) {
  return callers != nullptr ? work(*callers) : box.own(Access::read, Scope::transaction, work);
}

/// In batches, or in the caller's transaction.
inline std::size_t carry_out(Operation operation, Session* callers, const Operation::Step& step) {
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

/// The next batch of `keys` behind a position.
inline std::span<const DutyKey> next_batch(const std::vector<DutyKey>& keys,
                                           const Operation::State& state, const Act& act) {
  const auto begin =
      state.position ? std::ranges::upper_bound(keys, *state.position) : keys.begin();
  const auto count = std::min<std::int64_t>(act.batch, keys.end() - begin);
  return {begin, static_cast<std::size_t>(count)};
}

/// Empty: it was the last batch.
inline std::optional<DutyKey> position_after(std::span<const DutyKey> batch,
                                             const std::vector<DutyKey>& keys) {
  if (batch.empty() || batch.back() == keys.back()) return std::nullopt;
  return batch.back();
}

}  // namespace twinbox
