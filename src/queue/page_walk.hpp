// Walks over the rows of a chore page by page, and continues after a row that fails.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "twinbox/error.hpp"
#include "twinbox/message.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

class Box;

/// The position before a page: after a row. Each chore orders its rows by some of these fields, in
/// this order.
struct Position {
  std::optional<Instant> at = {};
  std::int64_t row = 0;
  std::string handler = {};
};

/// A row that a page is about to change.
struct PickedRow {
  Position position;
  std::string source;
  std::string id;  ///< of the message
};

struct RowPage {
  std::vector<PickedRow> picked = {};  ///< in order; less than the limit: nothing is behind them
  std::size_t changed = 0;
  std::vector<Message> dead = {};
};

/// Picks up to `limit` rows after a position into the page, then changes them.
using PageWork = std::function<void(Session&, const Position&, std::int64_t limit, RowPage&)>;

/// A row that cannot be changed, and why.
struct StuckRow {
  PickedRow row;
  std::string error;
  DatabaseError::Kind kind;
};

/// Remembers its position from one chore to the next. A failing page is halved until one row is
/// left, which is skipped. Failures that no row can cause are thrown.
class PageWalk {
 public:
  struct Step {
    RowPage page = {};                   ///< what was committed
    std::optional<StuckRow> stuck = {};  ///< the skipped row
    bool more = true;                    ///< false: the next step begins at the first row
  };

  /// One transaction. `stop` distinguishes a stop request from another cancellation.
  Step step(Box& box, std::int64_t limit, const PageWork& work, const std::stop_token& stop);

 private:
  void shrink(const RowPage& page);

  Position after_;
  std::int64_t size_ = 0;  ///< of the next page, after a failure; 0: the limit
};

}  // namespace twinbox
