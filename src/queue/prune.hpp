// Deletes old finished messages, batch by batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "queue/box.hpp"
#include "queue/page_walk.hpp"

namespace twinbox {

/// Throws std::out_of_range with the option and its bound.
void check_prune(const PruneOptions& options);

/// The number of the first message that is too young to be pruned: where the walk over dead and
/// seen messages ends. Without these, prune finds its messages by an index, and there is no bound.
std::int64_t prune_bound(Box& box, const PruneOptions& options);

/// One page of messages below prune_bound(): they are locked first and looked at again under the
/// lock.
void prune_page(const Box& box, Session& session, const PruneOptions& options, std::int64_t below,
                const Position& after, std::int64_t limit, RowPage& page);

/// One batch in a caller's transaction, from the oldest message on.
std::size_t prune_once(Box& box, Session& session, const PruneOptions& options);

/// One transaction per step; keeps its position, so that messages that must stay are skipped once.
class Pruning {
 public:
  /// Throws as check_prune does.
  Pruning(Box& box, const PruneOptions& options);

  /// False: the walk has reached its end.
  bool step();
  [[nodiscard]] std::size_t deleted() const noexcept { return deleted_; }

 private:
  Box& box_;
  const PruneOptions options_;
  const std::int64_t below_;  ///< the number of the first message that is too young
  Position after_;
  std::size_t deleted_ = 0;
};

}  // namespace twinbox
