// Sweeping a store, asking how it is, and doing something that only one process may do.
#include <iostream>

#include <twinbox/health.hpp>
#include <twinbox/housekeeping.hpp>
#include <twinbox/inbox.hpp>

int main() {
  using namespace twinbox;
  using namespace std::chrono_literals;

  Database database{"sqlite::memory:"};  // or "sqlite:shop.db", or "postgresql://me@localhost/shop"
  Inbox inbox{database, {.deploy_schema = true}};
  const OwnerToken me = OwnerToken::make(database.environment());
  const Arrival webhook{Source{"stripe"}, MessageId{"evt_1"}, Topic{"payment.received"}, "{}"};
  inbox.ack(me, inbox.accept_and_claim(webhook, me, 30s).messages);

  // In a service: house.run(stop_token) on a thread of yours.
  HousekeepingOptions options;
  options.retention = Duration{0};  // nothing finished is kept; without this line, for 30 days
  Housekeeping house{inbox, options};
  for (const ChoreReport& chore : house.step().chores) {
    std::cout << to_string(chore.chore) << ": " << to_string(chore.end) << ", " << chore.count
              << " rows\n";
  }

  const Health health = check_health(inbox);
  std::cout << to_string(health.state) << ": " << health.reasons.front() << "\n";

  NamedLeases leases{inbox};
  if (const auto lease = leases.try_acquire(LeaseName{"nightly report"}, me, 60s)) {
    std::cout << "the report is ours, epoch " << lease->epoch << "\n";
    leases.release(*lease);
  }
}
