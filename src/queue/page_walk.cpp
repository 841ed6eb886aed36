#include "queue/page_walk.hpp"

#include <algorithm>

#include "queue/box.hpp"

namespace twinbox {
namespace {

/// The meaning of a failure for the rows of its page.
enum class Cause {
  a_row,   ///< one of them
  maybe,   ///< the call did not end: a row that waits for a lock, or the server
  no_row,  ///< the database refuses every row
};

Cause cause_of(const DatabaseError& error, const std::stop_token& stop) {
  switch (error.kind()) {
    case DatabaseError::Kind::contention:
    case DatabaseError::Kind::invalid_request:
    case DatabaseError::Kind::other: return Cause::a_row;
    case DatabaseError::Kind::cancelled: return stop.stop_requested() ? Cause::maybe : Cause::a_row;
    case DatabaseError::Kind::connection_lost: return Cause::maybe;
    default: return Cause::no_row;
  }
}

}  // namespace

PageWalk::Step PageWalk::step(Box& box, std::int64_t limit, const PageWork& work,
                              const std::stop_token& stop) {
  const std::int64_t size = size_ == 0 ? limit : std::min(size_, limit);
  Step step;
  try {
    box.in_own_transaction(Access::write, Scope::transaction, [&](Session& session) {
      step.page = {};
      work(session, after_, size, step.page);
    });
  } catch (const DatabaseError& error) {
    const RowPage failed = std::move(step.page);
    const Cause cause = cause_of(error, stop);
    if (failed.picked.empty() || cause == Cause::no_row) throw;
    shrink(failed);
    if (cause == Cause::maybe) throw;
    step.page = {};
    if (failed.picked.size() == 1) step.stuck = {failed.picked.front(), error.what(), error.kind()};
    return step;
  }
  step.more = static_cast<std::int64_t>(step.page.picked.size()) == size;
  after_ = step.more ? step.page.picked.back().position : Position{};
  size_ = step.more && size < limit ? size * 2 : 0;
  return step;
}

/// A row that blocks its page until the page is interrupted must not do so forever. The next walk
/// checks skipped rows again.
void PageWalk::shrink(const RowPage& page) {
  size_ = std::max<std::int64_t>(static_cast<std::int64_t>(page.picked.size()) / 2, 1);
  if (page.picked.size() == 1) after_ = page.picked.front().position;
}

}  // namespace twinbox
