#include "simulation/oracle.hpp"

#include <algorithm>
#include <set>

#include "database/pool.hpp"

namespace twinbox::simulation {
namespace {

std::string text(std::int64_t id, const DeliveryRow& row) {
  return row.delivery.id + " for '" + row.delivery.handler + "' (work " + std::to_string(id) +
         ", epoch " + std::to_string(row.epoch) + ")";
}

std::string text(const DeliveryName& delivery) {
  return delivery.id + " for '" + delivery.handler + "'";
}

std::optional<std::string> maybe_text(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return std::string{row.text(column)};
}

/// One work row that was there before.
void check_row(std::int64_t id, const DeliveryRow& before, const Snapshot& after,
               const Actor& actor, Instant now) {
  const auto found = after.work.find(id);
  const bool gone = found == after.work.end();
  const bool changed_hands =
      gone || found->second.owner != before.owner || found->second.epoch != before.epoch;
  if (changed_hands && before.leased(now) && before.owner != actor) {
    throw Violation("a live lease was touched by somebody else: " + text(id, before));
  }
  if (gone) {
    if (!after.outcomes.contains(before.delivery))
      throw Violation("gone without an outcome: " + text(id, before));
    return;
  }
  const DeliveryRow& row = found->second;
  if (row.epoch < before.epoch || row.epoch > before.epoch + 1)
    throw Violation("an epoch that did not grow by one: " + text(id, row));
  if (row.owner && row.owner != before.owner && row.epoch == before.epoch)
    throw Violation("a new owner under the old epoch: " + text(id, row));
  if (row.epoch == before.epoch + 1 && before.leased(now))
    throw Violation("claimed under a live lease: " + text(id, row));
  if (row.attempts < before.attempts) throw Violation("attempts forgotten: " + text(id, row));
}

void check_work(const Snapshot& before, const Snapshot& after, Instant now,
                std::int64_t max_attempts) {
  std::set<std::string> busy;
  for (const auto& [id, row] : after.work) {
    if (!before.work.contains(id) && id <= before.largest_id)
      throw Violation("a work id was used again: " + text(id, row));
    if (after.outcomes.contains(row.delivery))
      throw Violation("open and finished at once: " + text(id, row));
    if (row.attempts >= max_attempts)
      throw Violation("open after its last attempt: " + text(id, row));
    if (row.partition && row.leased(now) && !busy.insert(*row.partition).second)
      throw Violation("two leases under one partition key: " + text(id, row));
  }
}

void check_outcomes(const Snapshot& before, const Snapshot& after) {
  for (const auto& [delivery, was] : before.outcomes) {
    const auto found = after.outcomes.find(delivery);
    if (was.state == State::marked) {
      const bool open = std::any_of(
          after.work.begin(), after.work.end(),
          [&delivery = delivery](const auto& entry) { return entry.second.delivery == delivery; });
      if (found == after.outcomes.end() && !open)
        throw Violation("a mark is lost: " + text(delivery));
    } else if (found == after.outcomes.end() || found->second.state != was.state) {
      throw Violation("finished, but it did not stay so: " + text(delivery));
    }
  }
}

}  // namespace

void make_effects(Database& database) {
  database.in_transaction([](Session& session) {
    session.execute("create table effect (id text not null, handler text not null)");
  });
}

std::optional<Snapshot> take_snapshot(Database& database, bool is_inbox, const Snapshot& before) {
  Snapshot picture{.work = {}, .outcomes = {}, .effects = {}, .largest_id = before.largest_id};
  const std::string box = is_inbox ? "inbox" : "outbox";
  pool_of(database).run(Access::read, Scope::transaction, [&](Session& session) {
    session.execute("pragma data_version", {},
                    [&](const Row& row) { picture.version = row.integer(0); });
    if (picture.version == before.version) return;
    session.execute(
        "select w.id, m.id, w.handler, w.epoch, w.attempts, w.owner, w.lease_until, "
        "w.partition_key from " +
            box + "_work w join " + box + "_message m on m.number = w.number",
        {}, [&](const Row& row) {
          DeliveryRow work{.delivery = {std::string{row.text(1)}, std::string{row.text(2)}},
                           .epoch = row.integer(3),
                           .attempts = row.integer(4),
                           .owner = {},
                           .lease_until = {},
                           .partition = maybe_text(row, 7)};
          if (!row.is_null(5)) work.owner = row.uuid(5);
          if (!row.is_null(6)) work.lease_until = row.instant(6);
          if (work.partition) *work.partition += "\n" + work.delivery.handler;
          picture.largest_id = std::max(picture.largest_id, row.integer(0));
          picture.work.emplace(row.integer(0), std::move(work));
        });
    session.execute(
        "select m.id, o.handler, o.state, o.reason from " + box + "_outcome o join " + box +
            "_message m on m.number = o.number",
        {}, [&](const Row& row) {
          picture.outcomes.emplace(
              DeliveryName{std::string{row.text(0)}, std::string{row.text(1)}},
              OutcomeRow{static_cast<State>(row.integer(2)), maybe_text(row, 3).value_or("")});
        });
    session.execute(
        "select id, handler, count(*) from effect group by id, handler", {}, [&](const Row& row) {
          picture.effects.emplace(DeliveryName{std::string{row.text(0)}, std::string{row.text(1)}},
                                  static_cast<int>(row.integer(2)));
        });
  });
  if (picture.version == before.version) return std::nullopt;
  return picture;
}

void check_change(const Snapshot& before, const Snapshot& after, const Actor& actor, Instant now,
                  std::int64_t max_attempts) {
  for (const auto& [id, row] : before.work) check_row(id, row, after, actor, now);
  check_work(before, after, now, max_attempts);
  check_outcomes(before, after);
  for (const auto& [delivery, count] : after.effects) {
    if (count > 1) throw Violation("an effect happened twice: " + text(delivery));
    if (!after.outcomes.contains(delivery))
      throw Violation("an effect without its outcome: " + text(delivery));
  }
}

}  // namespace twinbox::simulation
