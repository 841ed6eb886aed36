// Connections that break, are refused, run out, or get in each other's way.
#include <cstdlib>
#include <tuple>

#include "support/backend.hpp"
#include "support/postgres.hpp"
#include "support/postgres_wire.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class PostgresConnection : public BoxTest {
 protected:
  PostgresConnection() : admin_(test_store().address()) {
    outbox();
    inbox();
    admin_.run("set search_path = \"" + test_store().schema() + "\"");
  }

  /// The kind of the error that `body` meets, and its words in `words_`.
  template <class F>
  std::optional<Kind> error_of(const F& body) {
    try {
      body();
    } catch (const DatabaseError& error) {
      words_ = error.what();
      return error.kind();
    }
    return {};
  }

  BoxOptions opened() {
    BoxOptions same = options();
    same.deploy_schema = false;
    return same;
  }

  NewMessage named(const std::string& id) {
    NewMessage message = a_message();
    message.id = MessageId{id};
    return message;
  }

  /// Ends the backends of the pool and waits until they are gone.
  void terminate_others() {
    admin_.run(
        "select pg_terminate_backend(pid, 60000) from pg_stat_activity "
        "where pid <> pg_backend_pid() and backend_type = 'client backend'");
  }

  std::string messages() { return admin_.value("select count(*) from outbox_message"); }

  DeliveryView only_delivery() { return Admin{outbox()}.list({}).entries.at(0).delivery; }

  PgClient admin_;
  std::string words_;
};

TEST_P(PostgresConnection, OBX_107_an_encrypted_connection_with_a_checked_certificate_works) {
  REQUIREMENT("IBX-128");
  Database database(test_setting("TWINBOX_TEST_POSTGRES_TLS"), {}, environment());
  Outbox box(database, opened());
  box.enqueue(a_message());
  EXPECT_EQ(box.claim(worker_a, 30s, 10).size(), 1u);
  std::string encrypted;
  database.in_transaction([&](Session& session) {
    session.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()", {},
                    [&](const Row& row) { encrypted = row.text(0); });
  });
  EXPECT_EQ(encrypted, "t");
}

TEST_P(PostgresConnection, OBX_107_a_certificate_of_somebody_else_is_refused) {
  REQUIREMENT("IBX-128");
  Database database(test_setting("TWINBOX_TEST_POSTGRES_TLS_WRONG_CA"), {.retries = 0});
  EXPECT_EQ(error_of([&] { Outbox box(database, opened()); }), Kind::connection_lost);
  EXPECT_NE(words_.find("certificate verify failed"), std::string::npos) << words_;
}

TEST_P(PostgresConnection, OBX_107_a_certificate_for_another_host_is_refused) {
  REQUIREMENT("IBX-128");
  std::string address = test_setting("TWINBOX_TEST_POSTGRES_TLS_WRONG_HOST");
  Database database(address, {.retries = 0});
  EXPECT_EQ(error_of([&] { Outbox box(database, opened()); }), Kind::connection_lost);
  EXPECT_NE(words_.find("does not match host name"), std::string::npos) << words_;
  address.replace(address.find("verify-full"), 11, "verify-ca");
  Database trusting(address, {.retries = 0});
  EXPECT_NO_THROW(Outbox(trusting, opened())) << "all else is right";
}

TEST_P(PostgresConnection, a_role_that_must_encrypt_is_refused_without_it) {
  const std::string tls = test_setting("TWINBOX_TEST_POSTGRES_TLS");
  Database database(tls.substr(0, tls.find('?')) + "?sslmode=disable", {.retries = 0});
  EXPECT_EQ(error_of([&] { Outbox box(database, opened()); }), Kind::permission);
  EXPECT_EQ(words_.find(tls.substr(tls.find("twinbox_tls:") + 12, 24)), std::string::npos)
      << "the password shows";
}

TEST_P(PostgresConnection, a_restart_of_the_server_is_overcome_by_the_next_call) {
  outbox().enqueue(named("before"));
  const auto held = outbox().claim(worker_a, 10min, 10);
  ASSERT_EQ(std::system(test_setting("TWINBOX_TEST_POSTGRES_RESTART").c_str()), 0);
  outbox().enqueue(named("after"));
  EXPECT_EQ(outbox().ack(worker_a, held), 1u);
  EXPECT_EQ(outbox().claim(worker_b, 30s, 10).size(), 1u);
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::accepted);
}

TEST_P(PostgresConnection, a_server_that_may_be_written_to_again_is_found_by_the_next_call) {
  const std::string role = test_store().schema() + "_writer";
  admin_.run("create role " + role + " login");
  admin_.run(Schema(database(), BoxKind::outbox, options()).print_grants(role));
  const std::string address = test_store().address();
  for (const bool callers : {false, true}) {
    SCOPED_TRACE(callers ? "in a caller's transaction" : "in a call of our own");
    admin_.run("alter role " + role + " set default_transaction_read_only = on");
    Database database("postgresql://" + role + address.substr(address.find('@')), {},
                      environment());
    Outbox box(database, opened());
    const auto enqueue = [&] {
      if (!callers) box.enqueue(a_message());
      if (callers) {
        database.in_transaction([&](Session& session) { box.enqueue(session, a_message()); });
      }
    };
    EXPECT_EQ(error_of(enqueue), Kind::read_only);
    admin_.run("alter role " + role + " reset default_transaction_read_only");
    EXPECT_EQ(error_of(enqueue), std::nullopt) << words_;
  }
  EXPECT_EQ(messages(), "2");
  admin_.run("drop owned by " + role + " cascade");
  admin_.run("drop role " + role);
}

TEST_P(PostgresConnection, idle_connections_that_ended_are_replaced) {
  outbox().enqueue(a_message());
  terminate_others();
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_EQ(messages(), "1");
}

TEST_P(PostgresConnection, a_transaction_whose_backend_ends_is_lost_as_a_whole) {
  int calls = 0;
  const auto kind = error_of([&] {
    database().in_transaction([&](Session& session) {
      ++calls;
      outbox().enqueue(session, named("first"));
      terminate_others();
      outbox().enqueue(session, named("second"));
    });
  });
  EXPECT_EQ(kind, Kind::connection_lost) << words_;
  EXPECT_EQ(calls, 1) << "a caller's transaction is never repeated";
  EXPECT_EQ(messages(), "0");
  outbox().enqueue(named("first"));
  EXPECT_EQ(messages(), "1");
}

TEST_P(PostgresConnection, a_commit_that_was_not_sent_has_not_happened) {
  const auto kind = error_of([&] {
    database().in_transaction([&](Session& session) {
      outbox().enqueue(session, a_message());
      terminate_others();
    });
  });
  EXPECT_EQ(kind, Kind::connection_lost) << words_;
  EXPECT_EQ(messages(), "0");
}

TEST_P(PostgresConnection, a_commit_that_ended_with_its_backend_is_in_doubt_and_not_repeated) {
  admin_.run("create sequence commits");
  admin_.run(
      "create function leave() returns trigger language plpgsql as $$ begin perform "
      "nextval('" +
      test_store().schema() +
      ".commits'); perform "
      "pg_terminate_backend(pg_backend_pid()); return null; end $$");
  admin_.run(
      "create constraint trigger leave after insert on outbox_message deferrable initially "
      "deferred for each row execute function leave()");
  EXPECT_EQ(error_of([&] { outbox().enqueue(named("one")); }), Kind::commit_in_doubt) << words_;
  EXPECT_EQ(error_of([&] {
              database().in_transaction(
                  [&](Session& session) { outbox().enqueue(session, named("two")); });
            }),
            Kind::commit_in_doubt)
      << words_;
  EXPECT_EQ(admin_.value("select last_value from commits"), "2") << "each was tried once";
  admin_.run("drop trigger leave on outbox_message");
  outbox().enqueue(named("one"));
  outbox().enqueue(named("two"));
  EXPECT_EQ(messages(), "2");
}

TEST_P(PostgresConnection, OBX_001_a_commit_whose_answer_is_lost_meets_its_own_key_when_repeated) {
  PostgresWire wire(test_store().address());
  DatabaseOptions single;
  single.pool_size = 1;
  Database database(wire.address(), single, environment());
  Outbox box(database, opened());
  box.enqueue(named("warm"));
  wire.swallow_answers();
  Call enqueue([&] { return error_of([&] { box.enqueue(named("lost answer")); }); });
  while (messages() != "2") {
  }
  wire.cut();
  EXPECT_EQ(enqueue.get(), Kind::commit_in_doubt) << words_;
  EXPECT_TRUE(log().events("retry").empty());
  box.enqueue(named("lost answer"));
  EXPECT_EQ(messages(), "2");
  EXPECT_EQ(box.claim(worker_a, 30s, 10).size(), 2u);
}

TEST_P(PostgresConnection, a_batch_whose_answer_is_lost_is_in_doubt_and_not_written_again) {
  PostgresWire wire(test_store().address());
  DatabaseOptions single;
  single.pool_size = 1;
  Database database(wire.address(), single, environment());
  Outbox box(database, opened());
  const std::vector<NewMessage> batch{a_message(), a_message(), a_message()};
  box.enqueue(batch);
  wire.swallow_answers();
  Call enqueue([&] { return error_of([&] { box.enqueue(batch); }); });
  const std::string half_done =
      "select count(*) from pg_stat_activity where state = 'idle in transaction'";
  while (messages() != "6" && admin_.value(half_done) == "0") {
  }
  wire.cut();
  EXPECT_EQ(enqueue.get(), Kind::commit_in_doubt) << words_;
  EXPECT_TRUE(log().events("retry").empty());
  EXPECT_EQ(messages(), "6");
}

TEST_P(PostgresConnection, a_pool_that_is_used_up_says_so) {
  DatabaseOptions narrow;
  narrow.pool_size = 1;
  narrow.wait_timeout = std::chrono::milliseconds{0};
  Database database(test_store().address(), narrow, environment());
  Outbox box(database, opened());
  database.in_transaction([&](Session&) {
    Call other([&] { return error_of([&] { std::ignore = box.claim(worker_a, 30s, 1); }); });
    EXPECT_EQ(other.get(), Kind::contention);
    EXPECT_NE(words_.find("pool_size"), std::string::npos) << words_;
    EXPECT_THROW(std::ignore = box.claim(worker_a, 30s, 1), UsageError)
        << "it would wait for itself";
  });
  EXPECT_TRUE(box.claim(worker_a, 30s, 1).empty());
}

/// Ours waits in the middle of its batch until the caller waits for its beginning; then it closes
/// the circle. The caller is patient for an hour, so it is ours that the server refuses.
TEST_P(PostgresConnection, OBX_082_a_deadlock_with_a_callers_transaction_is_overcome) {
  Database database(with_setting(test_store().address(), "options=-c%20deadlock_timeout%3D20ms"),
                    {}, environment());
  Inbox ours(database, opened());
  PgClient caller(test_store().address());
  PgClient between(test_store().address());
  caller.run("set deadlock_timeout = '1h'");
  caller.begin();
  inbox().accept(caller.session(), an_arrival("c"));
  between.begin();
  inbox().accept(between.session(), an_arrival("b"));
  const std::vector<Arrival> batch{an_arrival("a"), an_arrival("b"), an_arrival("c")};
  Call our_call([&] { return ours.accept(batch); });
  EXPECT_TRUE(waits_for(our_call, between, admin_));
  Call callers_call([&] { return inbox().accept(caller.session(), an_arrival("a")); });
  while (!callers_call.finished() && admin_.value("select cardinality(pg_blocking_pids(" +
                                                  std::to_string(caller.pid()) + "))") == "0") {
  }
  between.rollback();
  EXPECT_EQ(callers_call.get().state, Acceptance::accepted) << "ours gave way";
  caller.commit();
  const auto answers = our_call.get();
  EXPECT_EQ(answers[0].state, Acceptance::duplicate_open);
  EXPECT_EQ(answers[1].state, Acceptance::accepted);
  EXPECT_EQ(answers[2].state, Acceptance::duplicate_open);
  ASSERT_GE(log().events("retry").size(), 1u);
  EXPECT_EQ(log().events("retry").front().field("kind"), "contention");
}

TEST_P(PostgresConnection, a_serialization_failure_is_repeated_a_bounded_number_of_times) {
  admin_.run("create sequence tries");
  const std::string refuse =
      "create or replace function refuse() returns trigger language plpgsql as $$ begin if "
      "nextval('" +
      test_store().schema() +
      ".tries') <= {} then raise exception 'not now' using errcode "
      "= 'serialization_failure'; end if; return new; end $$";
  const auto refuse_times = [&](int times) {
    std::string sql = refuse;
    admin_.run(sql.replace(sql.find("{}"), 2, std::to_string(times)));
    admin_.run("alter sequence tries restart");
  };
  refuse_times(3);
  admin_.run(
      "create trigger refuse before insert on outbox_message for each row execute function "
      "refuse()");
  outbox().enqueue(a_message());
  EXPECT_EQ(messages(), "1");
  EXPECT_EQ(log().events("retry").size(), 3u);
  refuse_times(1'000'000);
  EXPECT_EQ(error_of([&] { outbox().enqueue(a_message()); }), Kind::contention);
  EXPECT_EQ(admin_.value("select last_value from tries"), "6") << "once, and five times more";
  admin_.run("alter sequence tries restart");
  EXPECT_EQ(error_of([&] {
              database().in_transaction(
                  [&](Session& session) { outbox().enqueue(session, a_message()); });
            }),
            Kind::contention);
  EXPECT_EQ(admin_.value("select last_value from tries"), "1") << "a caller's is not repeated";
  EXPECT_EQ(messages(), "1");
}

TEST_P(PostgresConnection, a_session_without_a_usable_transaction_is_refused) {
  PgClient client(test_store().address());
  EXPECT_THROW(outbox().enqueue(client.session(), a_message()), UsageError);
  client.begin();
  EXPECT_NE(client.refusal("select 1/0"), "");
  EXPECT_THROW(outbox().enqueue(client.session(), a_message()), UsageError);
  client.rollback();
  EXPECT_EQ(messages(), "0");
}

TEST_P(PostgresConnection, a_handler_that_ends_its_own_connection_each_time_comes_to_an_end) {
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](Session& session, const Message&) {
                ++calls;
                terminate_others();
                outbox().enqueue(session, named("effect"));
              },
              {.retry = RetryPolicy{.max_attempts = 3}});
  Dispatcher dispatcher{outbox(), std::move(handlers)};
  outbox().enqueue(a_message());
  EXPECT_EQ(dispatcher.step(), 1u);
  EXPECT_EQ(only_delivery().attempts, 0) << "the first time it may have been an outage";
  for (int i = 0; i < 5; ++i) {
    dispatcher.step();
    clock().advance(1h);
  }
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(only_delivery().state, DeliveryState::dead);
  EXPECT_EQ(only_delivery().attempts, 3);
}

TEST_P(PostgresConnection, a_handler_whose_commit_never_arrives_is_not_called_again_at_once) {
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](Session&, const Message&) {
    ++calls;
    terminate_others();
  });
  Dispatcher dispatcher{outbox(), std::move(handlers)};
  outbox().enqueue(a_message());
  for (int i = 0; i < 5; ++i) dispatcher.step();
  EXPECT_EQ(calls, 2);
  clock().advance(1min);
  dispatcher.step();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(only_delivery().attempts, 0);
}

TWINBOX_ON_BACKENDS(PostgresConnection, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
