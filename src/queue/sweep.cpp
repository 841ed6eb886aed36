#include "queue/sweep.hpp"

#include <utility>

#include "queue/box.hpp"
#include "queue/claimed.hpp"
#include "queue/read.hpp"

namespace twinbox {
namespace {

/// The rows that a pick may change; the page has all rows that it found.
using Ids = std::vector<Value>;

Arg max_age_of(const Box& box) {
  return {"max_age", micros(std::min(box.options().max_age.value_or(ever), ever))};
}

/// Ends deliveries without a lease, including those without a message row, which are not reported.
void end_page(const Box& box, Session& session, const Ids& ids, std::string_view reason,
              RowPage& page) {
  if (ids.empty()) return;
  box.run(session, box.sql().expire,
          {{"id", ValueType::integer, ids}, {"reason", reason}, box.now()}, [&](const Row& row) {
            ++page.changed;
            if (!lacks_message(row)) page.dead.push_back(read_claimed(row));
          });
}

}  // namespace

void reap_page(const Box& box, Session& session, const Position& after, std::int64_t limit,
               RowPage& page) {
  Ids ids;
  box.run(session, box.sql().reap_pick, {{"after", after.row}, {"limit", limit}, box.now()},
          [&](const Row& row) {
            ids.emplace_back(row.integer(0));
            page.picked.push_back(
                {{.row = row.integer(0)}, text_or_empty(row, 1), text_or_empty(row, 2)});
          });
  if (ids.empty()) return;
  page.changed =
      box.run(session, box.sql().reap_picked, {{"id", ValueType::integer, ids}, box.now()});
}

void expire_page(const Box& box, Session& session, const Position& after, std::int64_t limit,
                 RowPage& page) {
  Ids ids;
  box.run(session, box.sql().expire_pick,
          {{"after_at", after.at}, {"after", after.row}, {"limit", limit}, box.now()},
          [&](const Row& row) {
            if (row.boolean(3)) ids.emplace_back(row.integer(0));
            page.picked.push_back({{.at = row.instant(4), .row = row.integer(0)},
                                   text_or_empty(row, 1),
                                   text_or_empty(row, 2)});
          });
  end_page(box, session, ids, expired_reason, page);
}

std::int64_t max_age_bound(const Box& box, Session& session) {
  std::int64_t bound = INT64_MAX;
  box.run(session, box.sql().max_age_bound, {max_age_of(box), box.now()},
          [&](const Row& row) { bound = row.integer(0); });
  return bound;
}

void max_age_page(const Box& box, Session& session, std::int64_t below, const Position& after,
                  std::int64_t limit, RowPage& page) {
  Ids ids;
  box.run(session, box.sql().max_age_pick,
          {max_age_of(box),
           {"below", below},
           {"after", after.row},
           {"after_handler", after.handler},
           {"limit", limit},
           box.now()},
          [&](const Row& row) {
            if (row.boolean(3)) ids.emplace_back(row.integer(0));
            page.picked.push_back({{.row = row.integer(4), .handler = std::string{row.text(5)}},
                                   text_or_empty(row, 1),
                                   text_or_empty(row, 2)});
          });
  end_page(box, session, ids, max_age_reason, page);
}

}  // namespace twinbox
