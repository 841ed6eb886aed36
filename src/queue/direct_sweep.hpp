// reap, expire and prune as direct calls: what fails is passed over, and told at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

#include "queue/page_walk.hpp"

namespace twinbox {

/// True: a row of the call may be the cause, and others can perhaps be changed.
bool may_be_a_row(const DatabaseError& error) noexcept;

struct SweepOptions {
  std::string_view action;  ///< for errors
  std::int64_t page;        ///< rows of one transaction
  std::int64_t limit;       ///< rows that may change
  std::size_t before = 0;   ///< have changed already; for errors
};

/// Walks over the rows of a chore until the limit is reached, there are no more, or a stop is
/// requested; `told` gets each page that was committed. Returns how many rows have changed. When
/// rows were passed over, throws the first one's error after that, with its id and the count.
std::size_t sweep_page_by_page(Box& box, const SweepOptions& sweep_options, const PageWork& work,
                               const std::stop_token& stop,
                               const std::function<void(const RowPage&)>& told);

}  // namespace twinbox
