// One message, several handlers: a delivery for each.
#include <algorithm>
#include <set>

#include "support/inbox_test.hpp"
#include "support/reused_schema.hpp"

namespace twinbox::test {
namespace {

using Keys = std::set<std::string>;

HandlerName handler(const std::string& key, const std::vector<std::string>& legacy = {}) {
  HandlerName name{HandlerKey{key}};
  for (const std::string& old : legacy) name.legacy_keys.emplace_back(old);
  return name;
}

class Handlers : public InboxTest {
 protected:
  Accepted accept(const std::vector<HandlerName>& handlers, const Arrival& arrival = an_arrival()) {
    return inbox().accept(arrival, handlers);
  }

  Keys keys(const MessageKey& key = a_key()) {
    Keys found;
    for (const DeliveryView& delivery : detail(key).deliveries)
      found.insert(delivery.key.handler.str());
    return found;
  }

  DeliveryView delivery_of(const std::string& handler_key) {
    for (const DeliveryView& delivery : detail().deliveries) {
      if (delivery.key.handler.str() == handler_key) return delivery;
    }
    throw std::runtime_error("no delivery of " + handler_key);
  }

  Message claimed(const std::string& handler_key) {
    const auto messages = inbox().claim(worker_a, 30s, 10);
    const auto found = std::find_if(messages.begin(), messages.end(), [&](const Message& message) {
      return message.handler.str() == handler_key;
    });
    if (found == messages.end()) throw std::runtime_error("no claim of " + handler_key);
    for (const Message& message : messages) {
      if (message.handler.str() != handler_key) inbox().release(worker_a, message);
    }
    return *found;
  }
};

TEST_P(Handlers, PHD_01_gives_each_handler_a_delivery_of_its_own) {
  EXPECT_EQ(accept({handler("mail"), handler("ledger")}).state, Acceptance::accepted);
  EXPECT_EQ(keys(), (Keys{"mail", "ledger"}));
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].key(), messages[1].key());
  EXPECT_NE(messages[0].delivery_id, messages[1].delivery_id);
}

TEST_P(Handlers, PHD_05_finish_and_fail_on_their_own) {
  accept({handler("mail"), handler("ledger"), handler("audit")});
  ASSERT_EQ(inbox().ack(worker_a, claimed("mail")), 1u);
  EXPECT_EQ(inbox().state(a_key()), MessageState::open);
  ASSERT_EQ(inbox().fail(worker_a, claimed("ledger"), "boom"), 1u);
  EXPECT_EQ(inbox().state(a_key()), MessageState::open);
  ASSERT_EQ(inbox().ack(worker_a, claimed("audit")), 1u);
  EXPECT_EQ(inbox().state(a_key()), MessageState::dead);
  EXPECT_FALSE(inbox().already_processed(a_key()));
  EXPECT_EQ(delivery_of("mail").state, DeliveryState::done);
}

TEST_P(Handlers, PHD_03_get_nothing_new_from_a_second_arrival) {
  accept({handler("mail"), handler("ledger")});
  EXPECT_EQ(accept({handler("ledger"), handler("mail")}).state, Acceptance::duplicate_open);
  EXPECT_EQ(detail().deliveries.size(), 2u);
}

TEST_P(Handlers, PHD_03_get_one_delivery_each_when_arrivals_race) {
  const std::vector<HandlerName> handlers{handler("mail"), handler("ledger")};
  constexpr int senders = 6;
  for (int i = 0; i < senders; ++i) other_inbox(static_cast<std::size_t>(i));
  std::atomic<int> accepted = 0;
  race(senders, [&](int sender) {
    for (int id = 0; id < 10; ++id) {
      accepted += !other_inbox(static_cast<std::size_t>(sender))
                       .accept(an_arrival("evt_" + std::to_string(id)), handlers)
                       .duplicate();
    }
  });
  EXPECT_EQ(accepted, 10);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 100).size(), 20u);
}

TEST_P(Handlers, PHD_04_that_come_later_get_their_delivery_and_leave_the_finished_ones_alone) {
  accept({handler("mail")});
  inbox().ack(worker_a, claimed("mail"));
  ASSERT_EQ(inbox().state(a_key()), MessageState::done);
  const DeliveryView mail = delivery_of("mail");
  clock().advance(5s);

  EXPECT_EQ(accept({handler("mail"), handler("ledger")}).state, Acceptance::accepted);
  EXPECT_EQ(keys(), (Keys{"mail", "ledger"}));
  EXPECT_EQ(delivery_of("mail").state, DeliveryState::done);
  EXPECT_EQ(delivery_of("mail").finished_at, mail.finished_at);
  EXPECT_EQ(inbox().state(a_key()), MessageState::open);
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].handler.str(), "ledger");
  EXPECT_EQ(messages[0].payload, payload());
}

TEST_P(Handlers, PHD_04_that_come_later_leave_a_dead_delivery_dead) {
  accept({handler("mail")});
  inbox().fail(worker_a, claimed("mail"), "boom");
  EXPECT_EQ(accept({handler("mail"), handler("ledger")}).state, Acceptance::accepted);
  EXPECT_EQ(delivery_of("mail").state, DeliveryState::dead);
  EXPECT_EQ(delivery_of("ledger").state, DeliveryState::ready);
}

TEST_P(Handlers, find_their_delivery_under_a_former_key_while_it_is_open) {
  accept({handler("mail")});
  EXPECT_EQ(accept({handler("mail.v2", {"mailer", "mail"})}).state, Acceptance::duplicate_open);
  EXPECT_EQ(keys(), Keys{"mail"});
}

TEST_P(Handlers, find_their_delivery_under_a_former_key_when_it_is_done_or_dead) {
  accept({handler("mail"), handler("ledger")});
  inbox().ack(worker_a, claimed("mail"));
  EXPECT_EQ(accept({handler("mail.v2", {"mail"})}).state, Acceptance::duplicate_open);
  inbox().fail(worker_a, claimed("ledger"), "boom");
  EXPECT_EQ(accept({handler("mail.v2", {"mail"}), handler("ledger.v2", {"ledger"})}).state,
            Acceptance::duplicate_dead);
  EXPECT_EQ(keys(), (Keys{"mail", "ledger"}));
}

TEST_P(Handlers, write_new_deliveries_under_the_new_key_only) {
  accept({handler("mail.v2", {"mail"})});
  EXPECT_EQ(keys(), Keys{"mail.v2"});
}

TEST_P(Handlers, count_a_delivery_by_topic_as_theirs) {
  inbox().accept(an_arrival());
  EXPECT_EQ(accept({handler("mail"), handler("ledger")}).state, Acceptance::duplicate_open);
  EXPECT_EQ(keys(), Keys{""});
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 10));
  EXPECT_EQ(accept({handler("mail")}).state, Acceptance::duplicate_done);
  EXPECT_EQ(keys(), Keys{""});
}

TEST_P(Handlers, named_twice_are_refused_and_nothing_is_written) {
  inbox();
  EXPECT_THROW(accept({handler("mail"), handler("mail")}), std::invalid_argument);
  EXPECT_THROW(accept({handler("mail"), handler("ledger", {"mail"})}), std::invalid_argument);
  EXPECT_THROW(accept({handler("mail", {"mail"})}), std::invalid_argument);
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(Handlers, PHD_21_take_ids_of_at_most_200_characters_and_nothing_is_written_otherwise) {
  inbox();
  const Arrival long_id = an_arrival(std::string(201, 'i'));
  try {
    accept({handler("mail")}, long_id);
    FAIL() << "a long id was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string_view{error.what()}.find("201"), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view{error.what()}.find("200"), std::string_view::npos) << error.what();
  }
  EXPECT_EQ(count_messages(), "0");
  EXPECT_EQ(accept({handler("mail")}, an_arrival(std::string(200, 'i'))).state,
            Acceptance::accepted);
  EXPECT_EQ(inbox().accept(long_id).state, Acceptance::accepted);
}

TEST_P(Handlers, of_a_batch_get_a_delivery_of_each_message) {
  inbox().accept(an_arrival("known"), std::vector{handler("mail")});
  const std::vector<Arrival> batch{an_arrival("a"), an_arrival("known"), an_arrival("b")};
  const std::vector<HandlerName> handlers{handler("mail"), handler("ledger")};
  for (const Accepted& answer : inbox().accept(batch, handlers)) {
    EXPECT_EQ(answer.state, Acceptance::accepted);
  }
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 6u);
  EXPECT_EQ(keys(a_key("known")), (Keys{"mail", "ledger"}));
}

TEST_P(Handlers, keep_the_keys_they_have_whatever_they_contain) {
  if (on_sqlserver() && is_stand_in())
    GTEST_SKIP() << "the stand-in leaves escapes in JSON as they are";
  const Keys odd{"a\"b", "back\\slash", "'; drop table inbox_work; --", "schlüssel", "[]{},"};
  std::vector<HandlerName> handlers;
  for (const std::string& key : odd) handlers.push_back(handler(key, {key + " of old"}));
  accept(handlers);
  EXPECT_EQ(keys(), odd);
  EXPECT_EQ(accept(handlers).state, Acceptance::duplicate_open);
}

TEST_P(Handlers, IBX_053_IBX_056_wait_for_their_own_retry) {
  accept({handler("mail"), handler("ledger")});
  inbox().abandon(worker_a, claimed("mail"), "busy", 60s);
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].handler.str(), "ledger");
}

TEST_P(Handlers, keep_their_order_inside_a_partition_key_each_for_itself) {
  const std::vector<HandlerName> handlers{handler("mail"), handler("ledger")};
  for (const char* id : {"first", "second"}) {
    Arrival arrival = an_arrival(id);
    arrival.extras.partition_key = PartitionKey{"customer 7"};
    accept(handlers, arrival);
  }
  ASSERT_EQ(inbox().ack(worker_a, claimed("mail")), 1u);
  EXPECT_EQ(claimed("mail").id.str(), "second");
  EXPECT_EQ(claimed("ledger").id.str(), "first");
}

TWINBOX_ON_EVERY_BACKEND(Handlers);

}  // namespace
}  // namespace twinbox::test
