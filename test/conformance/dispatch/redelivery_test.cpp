// What a host must expect: a second call after a crash, errors it is told of, a sink that is down.
#include <future>
#include <latch>
#include <map>
#include <thread>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

using Strings = std::vector<std::string>;

class Redelivery : public BoxTest {
 protected:
  /// The database goes away between the handler's end and the moment this is written down; then
  /// somebody else goes on. Returns the ids that were handled.
  template <class Box, class Put>
  Strings crash_before_the_end(Put&& put) {
    FaultPlan plan;
    Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
    Box box{store, options()};
    Strings handled;
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [&](const Message& message) {
      handled.push_back(message.id.str());
      if (handled.size() == 1) plan.fail_commit(DatabaseError::Kind::connection_lost);
    });
    put(box);
    try {
      Dispatcher{box, handlers}.step();
    } catch (const DatabaseError&) {
      // As far as the message is concerned, the process has ended here.
    }
    EXPECT_EQ(plan.happened(), 1u);
    Dispatcher after{box, handlers};
    EXPECT_EQ(after.drain(), 0u) << "while the first one may still be at work";
    clock().advance(default_lease);
    EXPECT_EQ(after.drain(), 1u);
    EXPECT_EQ(Admin{box}.counts(true).all.done, 1);
    return handled;
  }
};

TEST_P(Redelivery, OBX_058_a_handler_of_the_outbox_may_be_called_twice_with_the_same_id) {
  Strings ids;
  const Strings handled = crash_before_the_end<Outbox>(
      [&](Outbox& box) { ids.assign(2, box.enqueue(a_message()).id.str()); });
  EXPECT_EQ(handled, ids);
}

TEST_P(Redelivery, IBX_077_a_handler_of_the_inbox_may_be_called_twice_with_the_same_id) {
  const Strings handled = crash_before_the_end<Inbox>(
      [&](Inbox& box) { box.accept(an_arrival("evt_1", "stripe", "order.placed")); });
  EXPECT_EQ(handled, (Strings{"evt_1", "evt_1"}));
}

TEST_P(Redelivery,
       EVB_28_what_is_sent_twice_has_one_id_and_the_other_sides_inbox_drops_the_second) {
  FaultPlan plan;
  Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Outbox box{store, options()};
  std::vector<Acceptance> answers;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    answers.push_back(
        inbox().accept({Source{"shop"}, message.id, message.topic, message.payload}).state);
    if (answers.size() == 1) plan.lose_commit_reply(1, false);
  });
  box.enqueue(a_message());
  try {
    Dispatcher{box, handlers}.step();
  } catch (const DatabaseError&) {
  }
  clock().advance(default_lease);
  EXPECT_EQ(Dispatcher(box, handlers).drain(), 1u);
  EXPECT_EQ(answers, (std::vector{Acceptance::accepted, Acceptance::duplicate_open}));
  EXPECT_EQ(Admin{inbox()}.counts().all.open(), 1);
}

TEST_P(Redelivery, EVB_27_within_a_partition_key_uneven_failures_do_not_change_the_order) {
  constexpr int each = 6;
  const Strings keys{"order 7", "order 8", "order 9"};
  // How often each message fails by itself once the sink is back: never the same for neighbours.
  const auto failures = [](std::size_t key, int i) { return (static_cast<int>(key) + 2 * i) % 5; };
  bool down = true;
  std::map<std::string, int> tries;
  std::map<std::string, Strings> sent;
  std::map<std::string, int> wanted;
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](const Message& message) {
                if (down) throw std::runtime_error("the broker does not answer");
                if (tries[message.payload]++ < wanted.at(message.payload))
                  throw std::runtime_error("the broker refuses it");
                sent[message.partition_key->str()].push_back(message.payload);
              },
              {.retry = RetryPolicy{.max_attempts = 1000}});
  Dispatcher dispatcher{outbox(), handlers};
  std::map<std::string, Strings> expected;
  for (int i = 0; i < each; ++i) {
    for (std::size_t key = 0; key < 3; ++key) {
      NewMessage message = a_message("order.placed", keys[key] + "/" + std::to_string(i));
      message.extras.partition_key = PartitionKey{keys[key]};
      outbox().enqueue(message);
      expected[keys[key]].push_back(message.payload);
      wanted[message.payload] = failures(key, i);
    }
    // Down, back, and down again, while messages come in.
    down = i % 3 != 1;
    dispatcher.drain();
    clock().advance(10s);
  }
  down = false;
  for (int round = 0; round < 100 && Admin{outbox()}.counts().all.open() > 0; ++round) {
    dispatcher.drain();
    clock().advance(1min);
  }
  EXPECT_EQ(sent, expected);
}

TEST_P(Redelivery, without_a_key_what_failed_is_overtaken) {
  Strings sent;
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    if (++calls == 1) throw std::runtime_error("the broker does not answer");
    sent.push_back(message.payload);
  });
  Dispatcher dispatcher{outbox(), handlers};
  for (const char* text : {"first", "second"}) outbox().enqueue(a_message("order.placed", text));
  dispatcher.drain();
  clock().advance(1min);
  dispatcher.drain();
  EXPECT_EQ(sent, (Strings{payload("second"), payload("first")}));
}

TEST_P(Redelivery, EVB_27_within_a_partition_key_the_order_holds_however_often_each_was_tried) {
  bool down = true;
  Strings sent;
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](const Message& message) {
                if (down) throw std::runtime_error("the broker does not answer");
                sent.push_back(message.payload);
              },
              {.retry = RetryPolicy{.max_attempts = 1000}});
  Dispatcher dispatcher{outbox(), handlers};
  Strings expected;
  for (int i = 0; i < 5; ++i) {
    NewMessage message = a_message("order.placed", std::to_string(i));
    message.extras.partition_key = PartitionKey{"order 7"};
    outbox().enqueue(message);
    expected.push_back(message.payload);
    dispatcher.drain();
    clock().advance(1min);
  }
  down = false;
  // The youngest is new when the sink comes back, the oldest waits for its fifth retry.
  NewMessage last = a_message("order.placed", "last");
  last.extras.partition_key = PartitionKey{"order 7"};
  outbox().enqueue(last);
  expected.push_back(last.payload);
  for (int i = 0; i < 10; ++i) {
    dispatcher.drain();
    clock().advance(1min);
  }
  EXPECT_EQ(sent, expected);
}

TEST_P(Redelivery, EVB_17_a_callback_is_told_of_every_error) {
  Strings alerts;
  const auto alert = [&](const char* what, const Message& message, std::string_view error) {
    alerts.push_back(what + message.topic.str() + ": " + std::string{error});
  };
  DispatchObserver observer;
  observer.failed = [&](std::string_view, const Message& message, std::string_view error) {
    alert("failed ", message, error);
  };
  observer.dead = [&](std::string_view, const Message& message, std::string_view,
                      std::string_view error) { alert("dead ", message, error); };
  Handlers handlers;
  handlers.on(Topic{"mail.send"}, [](const Message&) { throw std::runtime_error("busy"); },
              {.retry = RetryPolicy{.max_attempts = 2}});
  handlers.on(Topic{"fax.send"}, [](const Message&) { return Outcome::dead("no paper"); });
  Dispatcher dispatcher{outbox(), handlers, {}, observer};
  outbox().enqueue(a_message("mail.send"));
  dispatcher.drain();
  EXPECT_EQ(alerts, Strings{"failed mail.send: busy"});
  clock().advance(1min);
  dispatcher.drain();
  outbox().enqueue(a_message("fax.send"));
  dispatcher.drain();
  EXPECT_EQ(alerts,
            (Strings{"failed mail.send: busy", "dead mail.send: busy", "dead fax.send: no paper"}));
}

TEST_P(Redelivery, EVB_06_several_dispatchers_run_in_one_process_on_threads_of_the_host) {
  std::latch sent{1};
  std::latch received{2};
  std::latch sent_again{1};
  Handlers out;
  out.on(Topic{"order.placed"}, [&](const Message& message) {
    (message.payload == payload("again") ? sent_again : sent).count_down();
  });
  Handlers in;
  in.on(Topic{"payment.received"}, [&](const Message&) { received.count_down(); });
  const DispatcherOptions by_wake_up{.workers = 1, .poll_interval = 1h};
  Dispatcher one{outbox(), out, by_wake_up};
  Dispatcher two{inbox(), in, by_wake_up};
  Dispatcher three{inbox(), in, by_wake_up};
  std::jthread first{[&](std::stop_token stop) { one.run(stop); }};
  std::jthread second{[&](std::stop_token stop) { two.run(stop); }};
  std::jthread third{[&](std::stop_token stop) { three.run(stop); }};
  outbox().enqueue(a_message());
  inbox().accept(an_arrival("evt_1"));
  sent.wait();
  // Each has a life of its own: one may end while the others go on.
  second.request_stop();
  second.join();
  inbox().accept(an_arrival("evt_2"));
  received.wait();
  outbox().enqueue(a_message("order.placed", "again"));
  sent_again.wait();
}

TEST_P(Redelivery, an_outage_of_the_database_costs_a_transactional_handler_no_attempt) {
  if (GetParam() == Backend::sqlite_memory) return;  // a second database would be another memory
  FaultPlan plan;
  outbox().enqueue(a_message());
  Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Outbox box{store, options()};
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](Session&, const Message&) { ++calls; });
  Dispatcher dispatcher{box, std::move(handlers)};
  for (int outage = 0; outage < 12; ++outage) {
    plan.fail_commit(
        outage % 2 == 0 ? FaultPlan::Kind::connection_lost : FaultPlan::Kind::commit_in_doubt, 2);
    EXPECT_EQ(dispatcher.step(), 1u);
    clock().advance(60s);
  }
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(calls, 13);
  const DeliveryView delivery = Admin{outbox()}.list({}).entries.at(0).delivery;
  EXPECT_EQ(delivery.state, DeliveryState::done);
  EXPECT_EQ(delivery.attempts, 0);
}

TEST_P(Redelivery, a_transaction_that_cannot_begin_costs_a_transactional_handler_no_attempt) {
  Environment watched = environment();
  std::promise<void> on_progress;
  std::future<void> somebody;
  Database* all = nullptr;
  watched.log = [&, next = watched.log](const LogEvent& event) {
    next(event);
    if (event.name == "handle" && !somebody.valid()) {
      // Takes the only connection right before the handler's transaction wants it.
      std::latch taken{1};
      somebody = std::async(std::launch::async, [&] {
        all->in_transaction([&](Session&) {
          taken.count_down();
          on_progress.get_future().wait();
        });
      });
      taken.wait();
    } else if (event.name == "handler_error") {
      on_progress.set_value();
      somebody.get();
    }
  };
  Database store{
      test_store().address(), {.pool_size = 1, .wait_timeout = 0ms, .retries = 0}, watched};
  all = &store;
  Outbox box{store, options()};
  box.enqueue(a_message());
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](Session&, const Message&) { ++calls; });
  Dispatcher dispatcher{box, std::move(handlers)};
  EXPECT_EQ(dispatcher.step(), 1u);
  EXPECT_EQ(calls, 0);
  const DeliveryView delivery = Admin{box}.list({}).entries.at(0).delivery;
  EXPECT_EQ(delivery.state, DeliveryState::ready);
  EXPECT_EQ(delivery.attempts, 0) << "it has not been called";
}

TWINBOX_ON_EVERY_BACKEND(Redelivery);

}  // namespace
}  // namespace twinbox::test
