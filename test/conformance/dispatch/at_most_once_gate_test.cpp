// The gate around a consumer that Twinbox does not call: a broker's own client, a web framework.
#include <atomic>
#include <optional>

#include "support/inbox_test.hpp"
#include <twinbox/inbox.hpp>

namespace twinbox::test {
namespace {

class AtMostOnceGate : public InboxTest {
 protected:
  const Topic type{"payment.received"};
};

TEST_P(AtMostOnceGate, MBH_07_handles_a_redelivered_message_once) {
  AtMostOnce gate{inbox()};
  int calls = 0;
  EXPECT_TRUE(gate.run(a_key(), [&] { ++calls; }));
  EXPECT_FALSE(gate.run(a_key(), [&] { ++calls; }));
  EXPECT_TRUE(gate.run(a_key("evt_2"), [&] { ++calls; }));
  EXPECT_EQ(calls, 2);
}

TEST_P(AtMostOnceGate, MBH_03_the_row_is_there_for_others_before_the_handler_is_called) {
  REQUIREMENT("MBH-08");
  AtMostOnce gate{inbox(), {.handler = HandlerKey{"mail"}}};
  gate.run(a_key(), type,
           [&] { EXPECT_FALSE(other_inbox(0).try_claim(a_key(), type, HandlerKey{"mail"})); });
  EXPECT_EQ(detail().message.topic, type);
  EXPECT_EQ(delivery().key.handler.str(), "mail");
  EXPECT_EQ(delivery().finished_at, clock().now());
}

TEST_P(AtMostOnceGate, MBH_13_a_crash_after_the_claim_does_not_repeat_the_message) {
  inbox();
  // A database in memory ends with its process: there the claim outlives only the caller.
  if (GetParam() == Backend::sqlite_memory) {
    ASSERT_TRUE(inbox().try_claim(a_key(), type));
  } else {
    Database crashed{test_store().address(), {}, environment()};
    Inbox box{crashed, options()};
    ASSERT_TRUE(box.try_claim(a_key(), type));
  }
  for (int round = 0; round < 2; ++round) {
    std::optional<Database> restarted;
    std::optional<Inbox> box;
    if (GetParam() != Backend::sqlite_memory) {
      restarted.emplace(test_store().address(), DatabaseOptions{}, environment());
      box.emplace(*restarted, options());
    }
    AtMostOnce gate{box ? *box : inbox(), {.release_claim_on_error = true}};
    EXPECT_FALSE(gate.run(a_key(), [] { ADD_FAILURE() << "called again"; }));
    clock().advance(24h);
    inbox().reap();
  }
}

TEST_P(AtMostOnceGate, MBH_05_an_exception_goes_on_and_the_message_is_not_handled_again) {
  AtMostOnce gate{inbox()};
  const auto broken = [] { throw std::runtime_error("no money"); };
  try {
    gate.run(a_key(), broken);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no money");
  }
  EXPECT_FALSE(gate.run(a_key(), broken));
  EXPECT_FALSE(inbox().try_claim(a_key(), type));
}

TEST_P(AtMostOnceGate, MBH_06_an_exception_goes_on_and_a_redelivery_is_handled) {
  AtMostOnce gate{inbox(), {.release_claim_on_error = true}};
  EXPECT_THROW(gate.run(a_key(), [] { throw 7; }), int);
  int calls = 0;
  EXPECT_TRUE(gate.run(a_key(), [&] { ++calls; }));
  EXPECT_FALSE(gate.run(a_key(), [&] { ++calls; }));
  EXPECT_EQ(calls, 1);
}

TEST_P(AtMostOnceGate, a_claim_that_cannot_be_released_is_logged_and_does_not_hide_the_exception) {
  FaultPlan plan;
  Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Inbox box{store, options()};
  AtMostOnce gate{box, {.release_claim_on_error = true}};
  EXPECT_THROW(gate.run(a_key(),
                        [&] {
                          plan.fail_statement(DatabaseError::Kind::connection_lost, 1,
                                              "release_claim");
                          throw std::runtime_error("no money");
                        }),
               std::runtime_error);
  EXPECT_EQ(log().events("release_claim_failed").size(), 1u);
  EXPECT_FALSE(gate.run(a_key(), [] {}));
}

TEST_P(AtMostOnceGate, MBH_09_each_handler_has_its_own_claim) {
  AtMostOnce mail{inbox(), {.handler = HandlerKey{"mail"}}};
  AtMostOnce ledger{inbox(), {.handler = HandlerKey{"ledger"}}};
  EXPECT_TRUE(mail.run(a_key(), [] {}));
  EXPECT_TRUE(ledger.run(a_key(), [] {}));
  EXPECT_FALSE(mail.run(a_key(), [] {}));
}

TEST_P(AtMostOnceGate, MBH_11_switched_off_it_calls_every_time_and_keeps_no_row) {
  BoxOptions open = options();
  open.gate = false;
  inbox();
  Inbox without{database(), open};
  AtMostOnce disabled{inbox(), {.release_claim_on_error = true, .enabled = false}};
  AtMostOnce through{without, {.release_claim_on_error = true}};
  for (AtMostOnce* gate : {&disabled, &through}) {
    int calls = 0;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(gate->run(a_key(), [&] { ++calls; }));
    database().in_transaction(
        [&](Session& session) { EXPECT_TRUE(gate->run(session, a_key(), [&] { ++calls; })); });
    EXPECT_THROW(gate->run(a_key(), [] { throw std::runtime_error("no money"); }),
                 std::runtime_error);
    EXPECT_EQ(calls, 3);
  }
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(AtMostOnceGate, exactly_one_of_many_consumers_handles_a_message) {
  constexpr int consumers = 6;
  for (int i = 0; i < consumers; ++i) other_inbox(static_cast<std::size_t>(i));
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> calls = 0;
    race(consumers, [&](int consumer) {
      AtMostOnce gate{other_inbox(static_cast<std::size_t>(consumer))};
      gate.run(a_key("evt_" + std::to_string(round)), [&] { ++calls; });
    });
    EXPECT_EQ(calls, 1) << "round " << round;
  }
}

TEST_P(AtMostOnceGate, MBH_14_claim_and_writes_commit_and_roll_back_together) {
  inbox();
  write("create table {schema}effect (id text)");
  for (const bool release : {false, true}) {
    AtMostOnce gate{inbox(), {.release_claim_on_error = release}};
    const MessageKey key = a_key(release ? "evt_2" : "evt_1");
    const auto handle = [&](bool fails) {
      bool called = false;
      database().in_transaction([&](Session& session) {
        called = gate.run(session, key, [&] {
          session.execute(in_schema("insert into {schema}effect values ('once')"));
          if (fails) throw std::runtime_error("rolled back");
        });
      });
      return called;
    };
    EXPECT_THROW(handle(true), std::runtime_error);
    EXPECT_EQ(inbox().state(key), std::nullopt);
    EXPECT_TRUE(handle(false));
    EXPECT_FALSE(handle(false));
  }
  EXPECT_EQ(read("select count(*) from {schema}effect"), "2");
}

TEST_P(AtMostOnceGate,
       MBH_06_a_caller_who_goes_on_with_his_transaction_keeps_or_releases_the_claim) {
  for (const bool release : {false, true}) {
    AtMostOnce gate{inbox(), {.release_claim_on_error = release}};
    const MessageKey key = a_key(release ? "released" : "kept");
    database().in_transaction([&](Session& session) {
      EXPECT_THROW(gate.run(session, key, type, [] { throw std::runtime_error("no money"); }),
                   std::runtime_error);
    });
    EXPECT_EQ(gate.run(key, [] {}), release);
  }
}

TWINBOX_ON_EVERY_BACKEND(AtMostOnceGate);

}  // namespace
}  // namespace twinbox::test
