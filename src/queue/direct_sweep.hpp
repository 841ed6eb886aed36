// reap, expire and prune as direct calls: failing rows are skipped, and reported at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

#include "queue/page_walk.hpp"

namespace twinbox {

/// True: a row of the call may be the cause, and other rows may succeed.
bool may_be_a_row(const DatabaseError& error) noexcept;

struct SweepOptions {
  std::string_view action;  ///< for errors
  std::int64_t page;        ///< rows of one transaction
  std::int64_t limit;       ///< rows that may change
  std::size_t before = 0;   ///< have changed already; for errors
};

/// Walks over the rows of a chore until the limit is reached, there are no more, or a stop is
/// requested; `told` receives each committed page. Returns how many rows have changed. After
/// skipped rows, throws the first one's error, with its id and the count.
std::size_t sweep_page_by_page(Box& box, const SweepOptions& sweep_options, const PageWork& work,
                               const std::stop_token& stop,
                               const std::function<void(const RowPage&)>& told);

}  // namespace twinbox
