#include "simulation/final_state.hpp"

namespace twinbox::simulation {

std::int64_t open_deliveries(Database& database, bool is_inbox) {
  std::int64_t count = 0;
  database.in_transaction([&](Session& session) {
    session.execute(
        is_inbox ? "select count(*) from inbox_work" : "select count(*) from outbox_work", {},
        [&](const Row& row) { count = row.integer(0); });
  });
  return count;
}

FinalState read_final_state(Database& database, bool is_inbox) {
  FinalState rest;
  const std::string box = is_inbox ? "inbox" : "outbox";
  database.in_transaction([&](Session& session) {
    session.execute("select id from " + box + "_message", {},
                    [&](const Row& row) { rest.messages.emplace(row.text(0)); });
    session.execute("select m.id, o.handler, o.state from " + box + "_outcome o join " + box +
                        "_message m on m.number = o.number",
                    {}, [&](const Row& row) {
                      rest.outcomes.emplace(
                          DeliveryName{std::string{row.text(0)}, std::string{row.text(1)}},
                          row.integer(2));
                    });
  });
  return rest;
}

void check_final_state(const FinalState& rest, const Ledger& ledger) {
  for (const DeliveryName& delivery : ledger.promises()) {
    if (!rest.outcomes.contains(delivery)) {
      throw Violation("lost: " + delivery.id + " for '" + delivery.handler + "'");
    }
  }
  for (const auto& [delivery, ending] : ledger.finished()) {
    const auto found = rest.outcomes.find(delivery);
    const std::int64_t expected = ending == Ending::done ? 1 : ending == Ending::dead ? 2 : 3;
    if (found == rest.outcomes.end() || found->second != expected) {
      throw Violation("finished, but it did not stay so: " + delivery.id + " for '" +
                      delivery.handler + "'");
    }
  }
  for (const auto& [delivery, state] : rest.outcomes) {
    if (state != 1 && state != 2 && !(state == 3 && ledger.operated(delivery)))
      throw Violation("neither done nor dead: " + delivery.id);
  }
}

void check_pruned(const FinalState& before, const FinalState& after) {
  std::set<std::string> kept;
  for (const auto& [delivery, state] : before.outcomes) {
    if (state == 2) kept.insert(delivery.id);
  }
  if (after.messages != kept) throw Violation("prune left or took what it should not");
}

}  // namespace twinbox::simulation
