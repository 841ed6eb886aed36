// What a dispatcher does when the end of a message cannot be written down.
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

#include "support/outbox_test.hpp"
#include "support/set_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

/// A failure that says this is refused by the database.
constexpr const char* poison = "poison";

class SettleFailure : public OutboxTest {
 protected:
  void refuse_poison() {
    outbox();
    if (!on_sqlite()) {
      write("alter table {schema}outbox_failure add check (error <> 'poison')");
    } else {
      write(
          "create trigger refuse before insert on outbox_failure when new.error = 'poison' "
          "begin select raise(abort, 'refused'); end");
    }
  }
  StateCounts totals() { return Admin{outbox()}.counts(true).all; }
};

TEST_P(SettleFailure, one_that_is_refused_holds_up_no_other) {
  refuse_poison();
  constexpr int others = 20;
  std::latch refused{1};
  std::latch handled{others};
  Handlers handlers;
  handlers.on(Topic{"order.bad"}, [](const Message&) { return Outcome::retry(poison); });
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.count_down(); });
  DispatchObserver observer;
  std::atomic<bool> told = false;
  observer.loop_error = [&](std::string_view, std::string_view) {
    if (!told.exchange(true)) refused.count_down();
  };
  Dispatcher dispatcher{outbox(), std::move(handlers), {.poll_interval = 1h}, observer};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  outbox().enqueue(a_message("order.bad"));
  refused.wait();
  for (int i = 0; i < others; ++i) outbox().enqueue(a_message());
  handled.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(totals().done, others);
  // A stop that cancels a claim releases it.
  EXPECT_EQ(totals().open(), 1) << "the refused one is left to whoever claims it next";
  ASSERT_EQ(log().events("settle_error").size(), 1u);
  EXPECT_NE(log().events("settle_error")[0].field("error"), "");
}

TEST_P(SettleFailure, one_of_a_batch_that_is_refused_takes_no_other_with_it) {
  refuse_poison();
  Handlers handlers;
  handlers.on_batch(Topic{"order.placed"}, [](std::span<const Message> messages, std::stop_token) {
    std::vector<Outcome> outcomes(messages.size(), Outcome::done());
    outcomes[1] = Outcome::retry(poison);
    return outcomes;
  });
  Dispatcher dispatcher{outbox(), std::move(handlers)};
  for (int i = 0; i < 4; ++i) outbox().enqueue(a_message());
  EXPECT_EQ(dispatcher.step(), 4u);
  EXPECT_EQ(totals().done, 3);
  EXPECT_EQ(totals().leased, 1);
  EXPECT_EQ(log().events("settle_error").size(), 1u);
}

TEST_P(SettleFailure, a_step_whose_settle_fails_releases_what_it_has_not_called) {
  if (GetParam() == Backend::sqlite_memory) return;  // a second database would be another memory
  outbox();
  FaultPlan plan;
  Database faulty = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Outbox box{faulty, options()};
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { ++calls; });
  Dispatcher dispatcher{box, std::move(handlers)};
  for (int i = 0; i < 3; ++i) outbox().enqueue(a_message());
  plan.fail_statement(Kind::contention, 1, "ack");
  EXPECT_THROW(dispatcher.step(), DatabaseError);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(totals().leased, 1);
  EXPECT_EQ(totals().ready, 2);
  EXPECT_EQ(dispatcher.drain(), 2u);
  EXPECT_EQ(totals().done, 2);
}

TEST_P(SettleFailure, a_renewal_that_failed_is_made_again_soon) {
  if (GetParam() == Backend::sqlite_memory) return;  // a second database would be another memory
  outbox();
  FaultPlan plan;
  Database faulty = open_faulty(test_store().address(), plan, {.retries = 0});
  Outbox box{faulty, options()};
  // Before its lease ends, or after it was lost: then it is told to stop, or taken over.
  std::promise<bool> in_time;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message, const std::stop_token& stop) {
    DeliveryView delivery = Admin{box}.get(message.id)->deliveries.at(0);
    while (!stop.stop_requested() && delivery.lease_until == message.lease_until) {
      std::this_thread::yield();
      delivery = Admin{box}.get(message.id)->deliveries.at(0);
    }
    in_time.set_value(!stop.stop_requested() && delivery.expiries == 0);
  });
  Dispatcher dispatcher{box, std::move(handlers), {.lease = 9s, .housekeeping = std::nullopt}};
  // Once in a third of the lease would be too late after these; soon leaves five seconds.
  for (int nth = 1; nth <= 3; ++nth) plan.fail_statement(Kind::contention, nth, "renew");
  box.enqueue(a_message());
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  EXPECT_TRUE(in_time.get_future().get());
  EXPECT_EQ(plan.happened(), 3u);
}

TWINBOX_ON_EVERY_BACKEND(SettleFailure);

class RemovedStore : public SetTest {};

TEST_P(RemovedStore, that_never_works_again_is_closed_when_its_leases_have_ended) {
  std::vector<StoreDefinition> found = {define("north")};
  // By a clock that stands still, so that nobody takes the message over meanwhile.
  DatabaseSet set([&] { return found; }, {.refresh_interval = 0ms}, environment());
  std::latch started{1};
  std::latch on_progress{1};
  std::latch closed{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  Dispatcher* mine = nullptr;
  DispatchObserver observer;
  observer.loop_error = [&](std::string_view, std::string_view error) {
    mine->resume();  // whoever is told may call it
    // One message, so it is told once.
    if (error.find("its lease has ended") != std::string_view::npos) closed.count_down();
  };
  Dispatcher dispatcher{set, BoxKind::outbox, std::move(handlers), {.lease = 300ms}, observer};
  mine = &dispatcher;
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  const auto north = set.find("north");
  north->outbox().enqueue(a_message());
  started.wait();
  rename_table(*north, "outbox_outcome", "hidden");
  found.clear();
  set.refresh();
  on_progress.count_down();
  closed.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(north.use_count(), 1) << "the dispatcher keeps nothing of it";
}

TWINBOX_ON_EVERY_BACKEND(RemovedStore);

}  // namespace
}  // namespace twinbox::test
