#include "queue/prune.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "database/answer_timeout.hpp"

namespace twinbox {
namespace {

Arg retention(const PruneOptions& options) {
  return {"retention", micros(std::min(options.older_than, ever))};
}

/// Only finished messages are found by an index.
bool walks_all(const PruneOptions& options) { return options.include_dead || options.include_seen; }

std::int64_t prune_bound(Box& box, Session& session, const PruneOptions& options) {
  std::int64_t bound = INT64_MAX;
  box.run(session, box.sql().prune_bound, {retention(options), box.now()},
          [&](const Row& row) { bound = row.integer(0); });
  return bound;
}

}  // namespace

std::int64_t prune_bound(Box& box, const PruneOptions& options) {
  if (!walks_all(options)) return INT64_MAX;
  const WithoutAnswerTimeout unlimited;
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    return prune_bound(box, session, options);
  });
}

void prune_page(const Box& box, Session& session, const PruneOptions& options, std::int64_t below,
                const Position& after, std::int64_t limit, RowPage& page) {
  const Arg kept = retention(options);
  const Arg dead{"dead", Value{options.include_dead}};
  const Arg seen{"seen", Value{options.include_seen}};
  const Arg after_number{"after", after.row};
  const Arg most{"limit", limit};
  std::vector<Value> numbers;
  const auto pick = [&](const Row& row, std::optional<Instant> at) {
    numbers.emplace_back(row.integer(0));
    page.picked.push_back(
        {{.at = at, .row = row.integer(0)}, std::string{row.text(1)}, std::string{row.text(2)}});
  };
  if (walks_all(options)) {
    box.run(session, box.sql().prune_pick_all,
            {after_number, {"below", below}, most, kept, dead, seen, box.now()},
            [&](const Row& row) { pick(row, std::nullopt); });
  } else {
    box.run(session, box.sql().prune_pick,
            {{"after_at", after.at}, after_number, most, kept, dead, seen, box.now()},
            [&](const Row& row) { pick(row, row.instant(3)); });
  }
  if (numbers.empty()) return;
  box.run(session, box.sql().prune,
          {{"number", ValueType::integer, numbers}, kept, dead, seen, box.now()},
          [&](const Row&) { ++page.changed; });
}

void check_prune(const PruneOptions& options) {
  if (options.older_than < Duration::zero())
    throw std::out_of_range("older_than: must not be below zero");
  require_limit(options.batch);
  if (options.limit <= 0) throw std::out_of_range("limit: must be at least 1");
}

std::size_t prune_once(Box& box, Session& session, const PruneOptions& options) {
  check_prune(options);
  const std::int64_t below = walks_all(options) ? prune_bound(box, session, options) : INT64_MAX;
  const std::int64_t limit = std::min(options.batch, options.limit);
  RowPage page;
  prune_page(box, session, options, below, {}, limit, page);
  return page.changed;
}

Pruning::Pruning(Box& box, const PruneOptions& options)
    : box_(box), options_((check_prune(options), options)), below_(prune_bound(box, options)) {}

bool Pruning::step() {
  const WithoutAnswerTimeout unlimited;
  const std::int64_t limit =
      std::min(options_.batch, options_.limit - static_cast<std::int64_t>(deleted_));
  if (limit <= 0) return false;
  const RowPage page =
      box_.in_own_transaction(Access::write, Scope::transaction, [&](Session& session) {
        RowPage some;
        prune_page(box_, session, options_, below_, after_, limit, some);
        return some;
      });
  deleted_ += page.changed;
  if (static_cast<std::int64_t>(page.picked.size()) < limit) return false;
  after_ = page.picked.back().position;
  return true;
}

}  // namespace twinbox
