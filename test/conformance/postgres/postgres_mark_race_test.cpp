// Whoever meets the end of a call at most once, which changes its mark without its message.
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresMarkRace : public BoxTest {
 protected:
  PostgresMarkRace()
      : first_(test_store().address()),
        watcher_(test_store().address()),
        settling_(with_setting(test_store().address(), "application_name=" + test_store().schema()),
                  {}, environment()),
        box_(settling_, options()) {
    test_store().change();
  }

  /// Whoever inserts into the table waits until on_progress(), in the middle of his statement.
  void stop_inserts_into(const std::string& table) {
    first_.run(
        in_schema("create function {schema}pause() returns trigger language plpgsql as $$ "
                  "begin perform pg_advisory_xact_lock_shared(4712); return new; end $$"));
    first_.run(in_schema("create trigger pause before insert on {schema}" + table +
                         " for each row execute function {schema}pause()"));
    first_.run("select pg_advisory_lock(4712)");
  }
  void on_progress() { first_.run("select pg_advisory_unlock(4712)"); }

  /// Prunes the only message while its call is being settled; returns how many it deleted.
  template <class Handler>
  std::size_t prune_beside(const std::string& stopped_at, Handler handler) {
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, handler,
                {.at_most_once = true, .release_claim_on_error = true});
    Dispatcher dispatcher{box_, std::move(handlers)};
    box_.enqueue(a_message());
    stop_inserts_into(stopped_at);
    Call settled([&] { return dispatcher.step(); });
    EXPECT_TRUE(waits_for(settled, first_, watcher_));
    Call pruned([&] { return Admin{outbox()}.prune(Filter{.state = StateFilter::marked}); });
    while (!pruned.finished() && !a_session_waits_for_the_settle()) {
    }
    on_progress();
    EXPECT_EQ(settled.get(), 1u);
    return pruned.get();
  }

  /// Does `body` while the call for the only message of the inbox is being put back.
  template <class Body>
  auto beside_a_release(Body body) {
    Inbox box{settling_, options()};
    Handlers handlers;
    handlers.on(Topic{"payment.received"}, [](const Message&) { throw std::runtime_error("no"); },
                {.at_most_once = true, .release_claim_on_error = true});
    Dispatcher dispatcher{box, std::move(handlers)};
    box.accept(an_arrival());
    stop_inserts_into("inbox_work");
    Call settled([&] { return dispatcher.step(); });
    EXPECT_TRUE(waits_for(settled, first_, watcher_));
    Call beside([&] { return body(inbox()); });
    while (!beside.finished() && !a_session_waits_for_the_settle()) {
    }
    on_progress();
    EXPECT_EQ(settled.get(), 1u);
    return beside.get();
  }

  std::string rows() {
    return read(
        "select (select count(*) from {schema}outbox_message) || ' message, ' || "
        "(select count(*) from {schema}outbox_work) || ' open, ' || "
        "(select count(*) from {schema}outbox_outcome where state = 2) || ' dead'");
  }
  std::string deliveries() {
    return read(
        "select (select count(*) from {schema}inbox_work) || ' open, ' || "
        "(select count(*) from {schema}inbox_outcome) || ' finished'");
  }

  PgClient first_;
  PgClient watcher_;
  Database settling_;
  Outbox box_;

 private:
  bool a_session_waits_for_the_settle() {
    return watcher_.value(
               "select count(*) > 0 from pg_stat_activity s, pg_stat_activity w where "
               "s.application_name = '" +
               test_store().schema() + "' and s.pid = any(pg_blocking_pids(w.pid))") == "t";
  }
};

TEST_P(PostgresMarkRace, a_call_that_is_being_released_keeps_its_message) {
  EXPECT_EQ(prune_beside("outbox_work", [](const Message&) { throw std::runtime_error("no"); }),
            0u);
  EXPECT_EQ(rows(), "1 message, 1 open, 0 dead");
}

TEST_P(PostgresMarkRace, a_call_that_is_just_dying_leaves_its_dead_letter) {
  EXPECT_EQ(prune_beside("outbox_failure", [](const Message&) { return Outcome::dead("never"); }),
            0u);
  EXPECT_EQ(rows(), "1 message, 0 open, 1 dead");
}

TEST_P(PostgresMarkRace, the_gate_stays_shut_for_a_call_that_is_being_released) {
  EXPECT_FALSE(beside_a_release(
      [](Inbox& box) { return box.try_claim(a_key(), Topic{"payment.received"}); }));
  EXPECT_EQ(deliveries(), "1 open, 0 finished");
}

TEST_P(PostgresMarkRace, mark_processed_ends_a_call_that_is_being_released) {
  EXPECT_TRUE(beside_a_release([](Inbox& box) { return box.mark_processed(a_key()); }));
  EXPECT_EQ(deliveries(), "0 open, 1 finished");
}

TWINBOX_ON_BACKENDS(PostgresMarkRace, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
