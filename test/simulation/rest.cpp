#include "simulation/rest.hpp"

namespace twinbox::simulation {

std::int64_t open_duties(Database& database, bool is_inbox) {
  std::int64_t count = 0;
  database.in_transaction([&](Session& session) {
    session.execute(
        is_inbox ? "select count(*) from inbox_work" : "select count(*) from outbox_work", {},
        [&](const Row& row) { count = row.integer(0); });
  });
  return count;
}

Rest read_rest(Database& database, bool is_inbox) {
  Rest rest;
  const std::string box = is_inbox ? "inbox" : "outbox";
  database.in_transaction([&](Session& session) {
    session.execute("select id from " + box + "_message", {},
                    [&](const Row& row) { rest.messages.emplace(row.text(0)); });
    session.execute("select m.id, o.handler, o.state from " + box + "_outcome o join " + box +
                        "_message m on m.number = o.number",
                    {}, [&](const Row& row) {
                      rest.outcomes.emplace(
                          DutyName{std::string{row.text(0)}, std::string{row.text(1)}},
                          row.integer(2));
                    });
  });
  return rest;
}

void check_rest(const Rest& rest, const Ledger& ledger) {
  for (const DutyName& duty : ledger.promises()) {
    if (!rest.outcomes.contains(duty)) {
      throw Violation("lost: " + duty.id + " for '" + duty.handler + "'");
    }
  }
  for (const auto& [duty, ending] : ledger.finished()) {
    const auto found = rest.outcomes.find(duty);
    const std::int64_t expected = ending == Ending::done ? 1 : ending == Ending::dead ? 2 : 3;
    if (found == rest.outcomes.end() || found->second != expected) {
      throw Violation("finished, but it did not stay so: " + duty.id + " for '" + duty.handler +
                      "'");
    }
  }
  for (const auto& [duty, state] : rest.outcomes) {
    if (state != 1 && state != 2 && !(state == 3 && ledger.operated(duty)))
      throw Violation("neither done nor dead: " + duty.id);
  }
}

void check_pruned(const Rest& before, const Rest& after) {
  std::set<std::string> kept;
  for (const auto& [duty, state] : before.outcomes) {
    if (state == 2) kept.insert(duty.id);
  }
  if (after.messages != kept) throw Violation("prune left or took what it should not");
}

}  // namespace twinbox::simulation
