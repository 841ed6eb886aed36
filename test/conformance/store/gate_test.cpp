// The at-most-once gate: whoever gets through may handle the message, nobody else.
#include <tuple>

#include "support/inbox_test.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

class Gate : public InboxTest {
 protected:
  const Topic type{"payment.received"};
  const HandlerKey mail{"mail"};
  const HandlerKey ledger{"ledger"};
};

TEST_P(Gate, MBH_01_MBH_02_lets_the_first_through_and_answers_false_to_the_rest) {
  REQUIREMENT("MBH-15");
  EXPECT_TRUE(inbox().try_claim(a_key(), type, mail));
  EXPECT_FALSE(inbox().try_claim(a_key(), type, mail));
  EXPECT_FALSE(inbox().try_claim(a_key(), Topic{"another.type"}, mail));
  EXPECT_TRUE(inbox().try_claim(a_key("evt_2"), type, mail));
  EXPECT_TRUE(inbox().try_claim(a_key("evt_1", "paypal"), type, mail));
}

TEST_P(Gate, MBH_04_lets_a_redelivery_through_after_a_release) {
  std::ignore = inbox().try_claim(a_key(), type, mail);
  EXPECT_TRUE(inbox().release_claim(a_key(), mail));
  EXPECT_FALSE(inbox().release_claim(a_key(), mail));
  EXPECT_TRUE(inbox().try_claim(a_key(), type, mail));
  EXPECT_FALSE(inbox().try_claim(a_key(), type, mail));
}

TEST_P(Gate, MBH_08_records_id_type_time_and_handler) {
  clock().advance(5s);
  std::ignore = inbox().try_claim(a_key(), type, mail);
  const MessageDetail found = detail();
  EXPECT_EQ(found.message.id.str(), "evt_1");
  EXPECT_EQ(found.message.topic, type);
  ASSERT_EQ(found.deliveries.size(), 1u);
  EXPECT_EQ(found.deliveries[0].state, DeliveryState::marked);
  EXPECT_EQ(found.deliveries[0].key.handler, mail);
  EXPECT_EQ(found.deliveries[0].finished_at, clock().now());
  EXPECT_EQ(found.deliveries[0].reason, type.str());
}

TEST_P(Gate, MBH_09_lets_each_handler_of_a_message_through_once) {
  EXPECT_TRUE(inbox().try_claim(a_key(), type, mail));
  EXPECT_TRUE(inbox().try_claim(a_key(), type, ledger));
  EXPECT_TRUE(inbox().try_claim(a_key(), type));
  EXPECT_FALSE(inbox().try_claim(a_key(), type, mail));
  EXPECT_FALSE(inbox().try_claim(a_key(), type, ledger));
  EXPECT_FALSE(inbox().try_claim(a_key(), type));
  EXPECT_TRUE(inbox().release_claim(a_key(), mail));
  EXPECT_TRUE(inbox().try_claim(a_key(), type, mail));
  EXPECT_FALSE(inbox().try_claim(a_key(), type, ledger));
}

TEST_P(Gate, MBH_12_lets_exactly_one_of_many_threads_through) {
  constexpr int consumers = 8;
  for (int i = 0; i < consumers; ++i) other_inbox(static_cast<std::size_t>(i));
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> through = 0;
    race(consumers, [&](int consumer) {
      through += other_inbox(static_cast<std::size_t>(consumer))
                     .try_claim(a_key("evt_" + std::to_string(round)), type, mail);
    });
    EXPECT_EQ(through, 1) << "round " << round;
  }
}

TEST_P(Gate, MBH_14_lets_exactly_one_of_many_transactions_through) {
  inbox();
  write("create table {schema}effect (id text)");
  constexpr int consumers = 6;
  for (int i = 0; i < consumers; ++i) other_inbox(static_cast<std::size_t>(i));
  for (int round = 0; round < 10; ++round) {
    const std::string id = "evt_" + std::to_string(round);
    race(consumers, [&](int consumer) {
      Inbox& inbox = other_inbox(static_cast<std::size_t>(consumer));
      inbox.database().in_transaction([&](Session& session) {
        if (!inbox.try_claim(session, a_key(id), type, mail)) return;
        session.execute(in_schema("insert into {schema}effect values (@id)"), {{"id", id}});
      });
    });
  }
  EXPECT_EQ(read("select count(*) from {schema}effect"), "10");
  EXPECT_EQ(read("select count(distinct id) from {schema}effect"), "10");
}

TEST_P(Gate, MBH_14_commits_and_rolls_back_with_the_callers_own_writes) {
  inbox();
  write("create table {schema}effect (id text)");
  const auto handle = [&](bool fails) {
    bool through = false;
    database().in_transaction([&](Session& session) {
      through = inbox().try_claim(session, a_key(), type, mail);
      if (!through) return;
      session.execute(in_schema("insert into {schema}effect values ('once')"));
      if (fails) throw std::runtime_error("rolled back");
    });
    return through;
  };
  EXPECT_THROW(handle(true), std::runtime_error);
  EXPECT_EQ(inbox().state(a_key()), std::nullopt);
  EXPECT_TRUE(handle(false));
  EXPECT_FALSE(handle(false));
  EXPECT_EQ(read("select count(*) from {schema}effect"), "1");
}

TEST_P(Gate, MBH_14_takes_a_release_back_with_the_callers_transaction) {
  std::ignore = inbox().try_claim(a_key(), type, mail);
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_TRUE(inbox().release_claim(session, a_key(), mail));
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_FALSE(inbox().try_claim(a_key(), type, mail));
}

TEST_P(Gate, MBH_11_switched_off_it_lets_everybody_through_and_keeps_no_row) {
  ASSERT_TRUE(inbox().try_claim(a_key("before"), type, mail));
  BoxOptions open = options();
  open.gate = false;
  Inbox inbox(database(), open);
  for (int arrival = 0; arrival < 3; ++arrival) {
    EXPECT_TRUE(inbox.try_claim(a_key(), type, mail));
    EXPECT_TRUE(inbox.try_claim(a_key("before"), type, mail));
    database().in_transaction(
        [&](Session& session) { EXPECT_TRUE(inbox.try_claim(session, a_key(), type, mail)); });
  }
  EXPECT_EQ(inbox.state(a_key()), std::nullopt);
  EXPECT_EQ(count_messages(), "1");
  EXPECT_FALSE(inbox.release_claim(a_key("before"), mail)) << "it holds nothing to give back";
  EXPECT_FALSE(this->inbox().try_claim(a_key("before"), type, mail));
  EXPECT_TRUE(this->inbox().try_claim(a_key(), type, mail));
}

TEST_P(Gate, MBH_11_switched_off_a_dispatcher_calls_at_most_once_handlers_without_a_mark) {
  BoxOptions open = options();
  open.gate = false;
  Inbox inbox(database(), open);
  inbox.accept(an_arrival());
  int calls = 0;
  Handlers handlers;
  handlers.on(type,
              [&](const Message& message) {
                EXPECT_EQ(Admin{inbox}.get(message.key()).value().deliveries.at(0).state,
                          DeliveryState::leased)
                    << "no mark before the call";
                if (++calls == 1) throw std::runtime_error("busy");
              },
              {.at_most_once = true});
  Dispatcher dispatcher{inbox, std::move(handlers)};
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(delivery().state, DeliveryState::scheduled) << "at least once: it is tried again";
  clock().advance(1min);
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(delivery().state, DeliveryState::done);
}

TEST_P(Gate, stays_shut_for_a_delivery_that_is_open_or_finished) {
  inbox().accept(an_arrival("open"));
  EXPECT_FALSE(inbox().try_claim(a_key("open"), type));
  std::ignore = inbox().accept_and_claim(an_arrival("leased"), worker_a, 30s);
  EXPECT_FALSE(inbox().try_claim(a_key("leased"), type));
  make_done(an_arrival("done"));
  EXPECT_FALSE(inbox().try_claim(a_key("done"), type));
  make_dead(an_arrival("dead"));
  EXPECT_FALSE(inbox().try_claim(a_key("dead"), type));
}

TEST_P(Gate, opens_for_a_message_that_was_only_seen) {
  std::ignore = inbox().already_processed(a_key());
  EXPECT_TRUE(inbox().try_claim(a_key(), type));
  EXPECT_EQ(inbox().state(a_key()), MessageState::open);
}

TEST_P(Gate, releases_nothing_but_its_own_marks) {
  make_done(an_arrival("done"));
  make_dead(an_arrival("dead"));
  inbox().accept(an_arrival("open"));
  for (const char* id : {"done", "dead", "open", "unknown"}) {
    const auto state = inbox().state(a_key(id));
    EXPECT_FALSE(inbox().release_claim(a_key(id))) << id;
    EXPECT_EQ(inbox().state(a_key(id)), state) << id;
  }
  std::ignore = inbox().try_claim(a_key(), type, mail);
  EXPECT_FALSE(inbox().release_claim(a_key(), ledger));
  EXPECT_FALSE(inbox().release_claim(a_key()));
  EXPECT_FALSE(inbox().release_claim(a_key("evt_1", "paypal"), mail));
}

TEST_P(Gate, keeps_accept_from_handing_out_what_went_through) {
  std::ignore = inbox().try_claim(a_key(), type);
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::duplicate_open);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  EXPECT_TRUE(inbox().mark_processed(a_key()));
  EXPECT_TRUE(inbox().already_processed(a_key()));
  EXPECT_FALSE(inbox().release_claim(a_key()));
}

TEST_P(Gate, races_accept_for_the_same_delivery_and_only_one_of_them_gets_it) {
  for (std::size_t i = 0; i < 2; ++i) other_inbox(i);
  for (int round = 0; round < 20; ++round) {
    const std::string id = "evt_" + std::to_string(round);
    std::atomic<bool> through = false;
    std::atomic<bool> accepted = false;
    race(2, [&](int side) {
      if (side == 0) {
        through = other_inbox(0).try_claim(a_key(id), type);
      } else {
        accepted = !other_inbox(1).accept(an_arrival(id)).duplicate();
      }
    });
    EXPECT_NE(through, accepted) << "round " << round;
    EXPECT_EQ(detail(a_key(id)).deliveries.size(), 1u) << "round " << round;
  }
}

TWINBOX_ON_EVERY_BACKEND(Gate);

}  // namespace
}  // namespace twinbox::test
