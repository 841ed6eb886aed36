// Deletes old finished messages, batch by batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "queue/box.hpp"

namespace twinbox {

/// Throws std::out_of_range with the option and its bound.
void check_prune(const PruneOptions& options);

/// One batch in somebody's transaction, from the oldest message on.
std::size_t prune_once(Box& box, Session& session, const PruneOptions& options);

/// A transaction per step; remembers how far it has come, so that what must stay is passed over
/// once.
class Pruning {
 public:
  /// Throws as check_prune does.
  Pruning(Box& box, const PruneOptions& options);

  /// False: nothing is left to look at.
  bool step();
  [[nodiscard]] std::size_t deleted() const noexcept { return deleted_; }

 private:
  Box& box_;
  const PruneOptions options_;
  const std::int64_t below_;  ///< the number of the first message that is too young
  std::int64_t after_ = 0;
  std::size_t deleted_ = 0;
};

}  // namespace twinbox
