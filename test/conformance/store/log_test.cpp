// What the boxes tell their log, and what they keep to themselves.
#include <tuple>

#include "support/outbox_test.hpp"
#include "support/reused_schema.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class Log : public OutboxTest {};

TEST_P(Log, OBX_085_enqueue_is_told_with_topic_and_correlation_id) {
  NewMessage message = a_message("order.placed");
  message.extras.correlation_id = CorrelationId{"basket-4"};
  const MessageId id = outbox().enqueue(message).id;
  outbox().enqueue(std::vector{a_message("a"), a_message("b")});
  const auto events = log().events("enqueue");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].level, LogLevel::info);
  EXPECT_EQ(events[0].field("topic"), "order.placed");
  EXPECT_EQ(events[0].field("correlation_id"), "basket-4");
  EXPECT_EQ(events[0].field("id"), id.str());
  EXPECT_EQ(events[1].field("topic"), "a");
  EXPECT_EQ(events[2].field("topic"), "b");
}

TEST_P(Log, OBX_085_an_enqueue_that_failed_is_not_told_as_one) {
  refuse_topic("boom");
  EXPECT_THROW(outbox().enqueue(a_message("boom")), DatabaseError);
  EXPECT_THROW(outbox().enqueue(std::vector{a_message("a"), a_message("boom")}), DatabaseError);
  EXPECT_TRUE(log().events("enqueue").empty());
}

TEST_P(Log, OBX_086_claim_is_told_with_the_number_of_messages) {
  outbox().enqueue(std::vector<NewMessage>(3, a_message()));
  std::ignore = outbox().claim(worker_a, 30s, 10);
  std::ignore = outbox().claim(worker_a, 30s, 10);
  const auto events = log().events("claim");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].level, LogLevel::debug);
  EXPECT_EQ(events[0].field("count"), "3");
  EXPECT_EQ(events[1].field("count"), "0");
}

TEST_P(Log, OBX_089_reap_is_told_with_the_number_of_messages) {
  outbox().enqueue(std::vector<NewMessage>(2, a_message()));
  std::ignore = outbox().claim(worker_a, 10s, 10);
  clock().advance(11s);
  outbox().reap();
  const auto events = log().events("reap");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].level, LogLevel::info);
  EXPECT_EQ(events[0].field("count"), "2");
}

TEST_P(Log, OBX_090_every_event_names_the_store) {
  if (on_sqlserver()) {  // else the tables of an earlier test need no deployment
    test_store().change();
    drop_sqlserver_schema(database(), test_store().schema());
  }
  NewMessage expiring = a_message();
  expiring.extras.expires_at = clock().now() + 1h;
  outbox().enqueue(expiring);
  outbox().enqueue(std::vector<NewMessage>(4, a_message()));
  const auto held = outbox().claim(worker_a, 5s, 500);
  ASSERT_EQ(held.size(), 5u);
  std::ignore = outbox().renew(worker_a, held[4], 5s);
  outbox().ack(worker_a, held[0]);
  outbox().abandon(worker_a, held[1]);
  outbox().fail(worker_a, held[2], "error");
  outbox().release(worker_a, held[3]);
  clock().advance(2h);
  outbox().reap();
  outbox().expire();
  outbox().prune({.older_than = 0s});
  Admin(outbox()).requeue(Filter{.state = StateFilter::dead});
  std::vector<std::string> acts;
  for (const RecordedEvent& event : log().events()) {
    EXPECT_EQ(event.field("store"), "test store") << event.name;
    acts.push_back(event.name);
  }
  for (const char* act :
       {"deploy", "enqueue", "claim", "renew", "ack", "abandon", "fail", "release", "reap", "prune",
        "requeue", "unusual_lease", "unusual_batch"}) {
    EXPECT_NE(std::find(acts.begin(), acts.end(), act), acts.end()) << act;
  }
}

TEST_P(Log, OBX_106_no_payload_is_told_whatever_happens) {
  const std::string secret = payload("secret");
  const auto expect_silence = [&](const std::exception& error) {
    EXPECT_EQ(std::string_view{error.what()}.find(payload_mark), std::string_view::npos)
        << error.what();
  };
  refuse_topic("boom");
  NewMessage wrong{.topic = Topic{"boom"}, .payload = secret};
  try {
    outbox().enqueue(wrong);
    FAIL() << "was not refused";
  } catch (const DatabaseError& error) {
    expect_silence(error);
  }
  wrong.topic = Topic{"t"};
  wrong.extras.headers = "{" + secret;
  try {
    outbox().enqueue(wrong);
    FAIL() << "was not refused";
  } catch (const std::invalid_argument& error) {
    expect_silence(error);
  }
  outbox().enqueue({.topic = Topic{"t"}, .payload = secret});
  const auto held = outbox().claim(worker_a, 10s, 10);
  ASSERT_EQ(held.size(), 1u);
  ASSERT_EQ(held[0].payload, secret);
  outbox().abandon(worker_a, held, "error");
  clock().advance(1h);
  outbox().fail(worker_a, outbox().claim(worker_a, 10s, 10), "error");
  ASSERT_GE(log().events().size(), 6u);
  for (const RecordedEvent& event : log().events()) {
    for (const auto& [name, value] : event.fields) {
      EXPECT_EQ(value.find(payload_mark), std::string::npos) << event.name << "." << name;
    }
  }
}

class HandlerLog : public Log {
 protected:
  /// What is logged of one delivery to the handler `mail`.
  std::vector<RecordedEvent> events_of(const std::string& name, HandlerEntry entry,
                                       int max_attempts = 10) {
    entry.options.retry = RetryPolicy{.max_attempts = max_attempts};
    const HandlerName names[] = {{HandlerKey{"mail"}}};
    inbox().accept(an_arrival(), names);
    Handlers handlers;
    handlers.add(HandlerKey{"mail"}, std::move(entry));
    Dispatcher{inbox(), std::move(handlers)}.step();
    return log().events(name);
  }
  static void expect_fields(const std::vector<RecordedEvent>& events, const std::string& cause) {
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].field("topic"), "payment.received");
    EXPECT_EQ(events[0].field("handler"), "mail");
    EXPECT_EQ(events[0].field("id"), "evt_1");
    EXPECT_EQ(events[0].field("cause"), cause);
    EXPECT_EQ(events[0].field("reason").find("secret"), std::string::npos);
  }
};

TEST_P(HandlerLog, a_call_is_told_with_the_key_of_its_handler) {
  const auto events = events_of("handle", HandlerEntry::of([](const Message&) {}));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].field("handler"), "mail");
}

TEST_P(HandlerLog, an_answer_that_is_tried_again_is_told_with_its_cause) {
  expect_fields(events_of("handler_retry", HandlerEntry::of([](const Message&) {
                            return Outcome::retry("secret", {}, {"http", 503});
                          })),
                "http 503");
}

TEST_P(HandlerLog, an_answer_without_a_cause_is_the_handlers) {
  expect_fields(events_of("handler_retry", HandlerEntry::of([](const Message&) {
                            return Outcome::retry("secret");
                          })),
                "handler");
}

TEST_P(HandlerLog, an_exception_is_told_as_one) {
  expect_fields(events_of("handler_error", HandlerEntry::of([](const Message&) {
                            throw std::runtime_error("no stock");
                          })),
                "exception");
}

TEST_P(HandlerLog, an_error_of_the_database_is_told_by_its_kind) {
  expect_fields(events_of("handler_error", HandlerEntry::of([](Session& session, const Message&) {
                            session.execute("select nonsense");
                          })),
                std::string{to_string(DatabaseError::Kind::invalid_request)});
}

TEST_P(HandlerLog, a_dead_letter_is_told_with_its_reason_and_its_cause) {
  const auto dead = events_of("dead", HandlerEntry::of([](const Message&) {
                                return Outcome::dead("secret", {"http", 400});
                              }));
  expect_fields(dead, "http 400");
  EXPECT_EQ(dead.at(0).field("reason"), "handler");
}

TEST_P(HandlerLog, a_dead_letter_by_its_last_attempt_is_told_with_the_cause_of_that) {
  const auto dead = events_of("dead", HandlerEntry::of([](const Message&) {
                                return Outcome::retry("secret", {}, {"http", 503});
                              }),
                              1);
  expect_fields(dead, "http 503");
  EXPECT_EQ(dead.at(0).field("reason"), "max_attempts");
}

TWINBOX_ON_EVERY_BACKEND(HandlerLog);

TEST_P(Log, events_below_the_chosen_level_are_not_told) {
  Environment quiet = environment();
  quiet.log_level = LogLevel::info;
  Database database(test_store().address(), {.name = "quiet"}, quiet);
  Outbox outbox(database, options());
  outbox.enqueue(a_message());
  outbox.ack(worker_a, outbox.claim(worker_a, 30s, 10));
  EXPECT_EQ(log().events("enqueue").size(), 1u);
  EXPECT_TRUE(log().events("claim").empty());
  EXPECT_TRUE(log().events("ack").empty());
}

TEST_P(Log, every_statement_is_timed_in_one_place) {
  std::map<std::string, int> timed;
  Environment watched = environment();
  watched.timing = [&](std::string_view statement, std::chrono::nanoseconds time, std::size_t) {
    EXPECT_GE(time.count(), 0);
    ++timed[std::string{statement}];
  };
  Database database(test_store().address(), {}, watched);
  Outbox outbox(database, options());
  outbox.enqueue(a_message());
  outbox.ack(worker_a, outbox.claim(worker_a, 30s, 10));
  const std::string add = on_sqlserver() ? "add" : "insert_generated";
  EXPECT_EQ(timed, (std::map<std::string, int>{{add, 1}, {"claim", 1}, {"ack", 1}}));
}

TWINBOX_ON_EVERY_BACKEND(Log);

/// A program that has set no log: what it prints on stderr.
class WithoutLog : public OutboxTest {
 protected:
  /// Opens an outbox with an environment of defaults and calls `body` with it.
  template <class F>
  std::string printed(F&& body) {
    Database plain{test_store().address(), {.name = "shop"}};
    Outbox box{plain, options()};
    testing::internal::CaptureStderr();
    body(box);
    return testing::internal::GetCapturedStderr();
  }
  /// Handles a message by `handler`.
  template <class F>
  std::string printed_by_handler(F handler) {
    return printed([&](Outbox& box) {
      box.enqueue({.topic = Topic{"order.placed"}, .payload = payload(), .id = MessageId{"m1"}});
      Handlers handlers;
      handlers.on(Topic{"order.placed"}, std::move(handler));
      Dispatcher dispatcher{box, std::move(handlers)};
      EXPECT_EQ(dispatcher.step(), 1u);
    });
  }
};

TEST_P(WithoutLog, an_exception_of_a_handler_is_one_line) {
  EXPECT_EQ(printed_by_handler([](const Message&) { throw std::runtime_error("no stock"); }),
            "twinbox: error handler_error store=shop box=outbox topic=order.placed handler=\"\" "
            "id=m1 cause=exception error=\"no stock\"\n");
}

TEST_P(WithoutLog, a_retry_that_a_handler_asks_for_is_one_line) {
  EXPECT_EQ(printed_by_handler([](const Message&) { return Outcome::retry("busy"); }),
            "twinbox: warning handler_retry store=shop box=outbox topic=order.placed handler=\"\" "
            "id=m1 cause=handler attempt=1\n");
}

TEST_P(WithoutLog, a_dead_letter_is_one_line) {
  EXPECT_EQ(printed_by_handler([](const Message&) { return Outcome::malformed("no JSON"); }),
            "twinbox: error dead store=shop box=outbox topic=order.placed handler=\"\" id=m1 "
            "reason=malformed cause=malformed\n");
}

TEST_P(WithoutLog, a_conflict_is_one_line) {
  EXPECT_EQ(printed([](Outbox& box) {
              for (const char* content : {"one", "other"})
                box.enqueue({.topic = Topic{"a"}, .payload = content, .id = MessageId{"m1"}});
            }),
            "twinbox: warning conflict store=shop box=outbox source=- id=m1\n");
}

TWINBOX_ON_EVERY_BACKEND(WithoutLog);

}  // namespace
}  // namespace twinbox::test
