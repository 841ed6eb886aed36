#include "queue/direct_sweep.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "queue/box.hpp"

namespace twinbox {
namespace {

/// A failure that concerns every row must not try them all one by one.
constexpr int most_passed_over = 100;

std::string describe(const Box& box, std::string_view action, const StuckRow& first, int count,
                     std::size_t changed) {
  return "store " + box.database().name() + ": " + std::string{action} + ": " +
         std::to_string(count) + (count == 1 ? " row was" : " rows were") +
         " passed over, and what could be changed was (" + std::to_string(changed) +
         "): source \"" + first.row.source + "\", id \"" + first.row.id + "\": " + first.error;
}

}  // namespace

bool may_be_a_row(const DatabaseError& error) noexcept {
  using Kind = DatabaseError::Kind;
  return error.kind() == Kind::contention || error.kind() == Kind::invalid_request ||
         error.kind() == Kind::other;
}

std::size_t sweep_page_by_page(Box& box, const SweepOptions& sweep_options, const PageWork& work,
                               const std::stop_token& stop,
                               const std::function<void(const RowPage&)>& told) {
  PageWalk walk;
  std::optional<StuckRow> first;
  int passed_over = 0;
  std::int64_t changed = 0;
  while (changed < sweep_options.limit && passed_over < most_passed_over &&
         !stop.stop_requested()) {
    const PageWalk::Step step =
        walk.step(box, std::min(sweep_options.page, sweep_options.limit - changed), work, stop);
    changed += static_cast<std::int64_t>(step.page.changed);
    told(step.page);
    if (step.stuck) {
      ++passed_over;
      if (!first) first = step.stuck;
    }
    if (!step.more) break;
  }
  const auto count = static_cast<std::size_t>(changed);
  if (!first) return count;
  throw DatabaseError(first->kind, describe(box, sweep_options.action, *first, passed_over,
                                            sweep_options.before + count));
}

}  // namespace twinbox
