// Who is told of a commit on PostgreSQL, when, and who is not.
#include <future>
#include <memory>
#include <poll.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "database/pool.hpp"
#include "driver/postgres/postgres_driver.hpp"
#include "sql/notify_channel.hpp"
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include "support/postgres_wire.hpp"
#include "twinbox/database.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

/// Listens as any program could.
class Listener {
 public:
  Listener(const std::string& address, const BoxName& box)
      : connection_(PQconnectdb(address.c_str()), &PQfinish) {
    run("listen " + quote_identifier(channel_of(box).name));
  }

  /// How often it was told since the last call: what was committed before is never missing.
  int told() {
    run("select 1");
    int count = 0;
    while (PGnotify* notification = PQnotifies(connection_.get())) {
      PQfreemem(notification);
      ++count;
    }
    return count;
  }

 private:
  void run(const std::string& sql) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> answer{
        PQexec(connection_.get(), sql.c_str()), &PQclear};
    const auto status = PQresultStatus(answer.get());
    ASSERT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        << PQerrorMessage(connection_.get());
  }

  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

class PostgresWake : public BoxTest {
 protected:
  BoxName outbox_name() { return {options().schema, "outbox"}; }
  BoxName inbox_name() { return {options().schema, "inbox"}; }
  Listener outbox_listener() {
    outbox();
    return {test_store().address(), outbox_name()};
  }
  Listener inbox_listener() {
    inbox();
    return {test_store().address(), inbox_name()};
  }
  static NewMessage keyed(const char* id) {
    NewMessage message = a_message();
    message.id = MessageId{id};
    message.extras.partition_key = PartitionKey{"customer 1"};
    return message;
  }
};

TEST_P(PostgresWake, PHD_28_every_way_in_tells_who_waits) {
  Listener listener = outbox_listener();
  outbox().enqueue(a_message());
  EXPECT_EQ(listener.told(), 1);
  outbox().enqueue(std::vector<NewMessage>{a_message(), a_message()});
  EXPECT_EQ(listener.told(), 1);
  outbox().enqueue(keyed("one"));
  EXPECT_EQ(listener.told(), 1);
  NewMessage later = a_message();
  later.extras.due_at = clock().now() + 1h;
  outbox().enqueue(later);
  EXPECT_EQ(listener.told(), 1) << "who sleeps until something is due has to know";
  write("select {schema}outbox_enqueue('topic', 'payload')");
  EXPECT_EQ(listener.told(), 1);
  Listener in = inbox_listener();
  inbox().accept(an_arrival());
  EXPECT_EQ(in.told(), 1);
  write("select {schema}inbox_accept('shop', 'evt_2', 'topic', 'payload')");
  EXPECT_EQ(in.told(), 1);
  EXPECT_EQ(listener.told(), 0) << "each box has its own channel";
}

TEST_P(PostgresWake, a_callers_transaction_tells_when_it_commits) {
  Listener listener = outbox_listener();
  for (const char* level : {"read committed", "repeatable read", "serializable"}) {
    PgClient client(test_store().address());
    client.run("begin isolation level " + std::string{level});
    outbox().enqueue(client.session(), a_message());
    outbox().enqueue(client.session(), a_message());
    EXPECT_EQ(listener.told(), 0) << level;
    client.commit();
    EXPECT_EQ(listener.told(), 1) << level;
    client.begin();
    outbox().enqueue(client.session(), a_message());
    client.rollback();
    EXPECT_EQ(listener.told(), 0) << level;
  }
}

TEST_P(PostgresWake, what_is_released_tells_who_waits) {
  Listener listener = outbox_listener();
  outbox().enqueue(std::vector<NewMessage>{a_message(), a_message(), a_message()});
  const auto held = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(held.size(), 3u);
  listener.told();
  EXPECT_EQ(outbox().release(worker_a, held[0]), 1u);
  EXPECT_EQ(listener.told(), 1);
  EXPECT_EQ(outbox().fail(worker_a, held[1], "error"), 1u);
  EXPECT_EQ(listener.told(), 0);
  EXPECT_EQ(Admin{outbox()}.requeue(Filter{}), 1u);
  EXPECT_EQ(listener.told(), 1);
  EXPECT_EQ(outbox().ack(worker_a, held[2]), 1u);
  EXPECT_EQ(outbox().release(worker_a, held[2]), 0u);
  EXPECT_EQ(listener.told(), 0) << "nothing has become due";
}

TEST_P(PostgresWake, the_end_of_a_keys_head_tells_of_the_next) {
  outbox().enqueue(keyed("one"));
  outbox().enqueue(keyed("two"));
  Listener listener = outbox_listener();
  EXPECT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10)), 1u);
  EXPECT_EQ(listener.told(), 1);
  EXPECT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10)), 1u);
  EXPECT_EQ(listener.told(), 0) << "there is no next one";
}

TEST_P(PostgresWake, a_duplicate_that_is_done_tells_nobody) {
  inbox().accept(an_arrival());
  EXPECT_EQ(inbox().ack(worker_a, inbox().claim(worker_a, 30s, 10)), 1u);
  Listener listener = inbox_listener();
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::duplicate_done);
  EXPECT_EQ(listener.told(), 0);
}

TEST_P(PostgresWake, writers_at_the_same_time_share_their_notifications) {
  Listener listener = outbox_listener();
  std::vector<std::unique_ptr<PgClient>> writers;
  for (int i = 0; i < 32; ++i) {
    writers.push_back(std::make_unique<PgClient>(test_store().address()));
    writers.back()->begin();
    outbox().enqueue(writers.back()->session(), a_message());
  }
  for (const auto& writer : writers) writer->commit();
  const int told = listener.told();
  EXPECT_GE(told, 1);
  // Two, and two more for each quarter of a second that these transactions took to begin.
  EXPECT_LT(told, 32);
}

TEST_P(PostgresWake, a_transaction_that_stays_open_silences_nobody) {
  Listener listener = outbox_listener();
  PgClient slow(test_store().address());
  slow.begin();
  outbox().enqueue(slow.session(), a_message());
  for (int i = 0; i < 20; ++i) {
    outbox().enqueue(a_message());
    ASSERT_EQ(listener.told(), 1) << i;
  }
  PgClient slower(test_store().address());
  slower.begin();
  outbox().enqueue(slower.session(), a_message());
  int told = 0;
  while (told == 0) {  // ends with the present quarter of a second
    outbox().enqueue(a_message());
    told = listener.told();
  }
  slow.commit();
  slower.commit();
  EXPECT_EQ(listener.told(), 2);
}

TEST_P(PostgresWake, a_session_can_switch_it_off) {
  Listener listener = outbox_listener();
  PgClient client(test_store().address());
  client.begin();
  client.run("set local twinbox.notify = off");
  outbox().enqueue(client.session(), a_message());
  client.commit();
  EXPECT_EQ(listener.told(), 0);
  client.begin();
  outbox().enqueue(client.session(), a_message());
  client.commit();
  EXPECT_EQ(listener.told(), 1);
}

TEST_P(PostgresWake, nothing_of_it_stays_on_a_writers_connection) {
  Listener listener = outbox_listener();
  PgClient client(test_store().address());
  client.begin();
  outbox().enqueue(client.session(), a_message());
  client.commit();
  EXPECT_EQ(client.value("select count(*) from pg_locks where locktype = 'advisory' and pid = "
                         "pg_backend_pid()"),
            "0");
}

TWINBOX_ON_BACKENDS(PostgresWake, Backend::postgres);

class PostgresWatch : public BoxTest {
 protected:
  std::unique_ptr<Watch> open(const std::string& address) {
    outbox();
    return make_postgres_driver(address, {}, {})
        ->watch({options().schema, "outbox"})(std::stop_token{});
  }

  /// Waits until the watch says so; throws what the watch throws.
  static bool hears(Watch& watch) {
    for (int i = 0; i < 600; ++i) {
      if (watch.changed()) return true;
      pollfd socket{watch.descriptor(), POLLIN, 0};
      ::poll(&socket, 1, 100);
    }
    return false;
  }
};

TEST_P(PostgresWatch, hears_what_others_commit) {
  const auto watch = open(test_store().address());
  EXPECT_FALSE(watch->changed());
  outbox().enqueue(a_message());
  EXPECT_TRUE(hears(*watch));
  EXPECT_FALSE(watch->changed());
  EXPECT_FALSE(watch->look_again()) << "an idle watch costs nothing";
}

TEST_P(PostgresWatch, hears_nothing_while_nobody_waits_and_then_that_it_may_have_missed_something) {
  const auto watch = open(test_store().address());
  PgClient admin(test_store().address());
  const std::string state =
      "select query from pg_stat_activity where query like '%listen%' and "
      "state = 'idle' and pid <> pg_backend_pid()";
  for (int round = 0; round < 3; ++round) {
    watch->set_waiting(false);
    // In the middle of this, libpq knows of no answer yet.
    for (int i = 0; i < 100'000 && admin.value(state).find("unlisten") != 0; ++i) {
    }
    outbox().enqueue(a_message());
    EXPECT_FALSE(watch->changed());
    watch->set_waiting(true);
    EXPECT_TRUE(hears(*watch));
    EXPECT_FALSE(watch->changed());
    outbox().enqueue(a_message());
    EXPECT_TRUE(hears(*watch));
  }
  for (int i = 0; i < 10; ++i) watch->set_waiting(i % 2 == 1);  // faster than the server answers
  EXPECT_TRUE(hears(*watch));
  while (watch->changed()) {
  }
  outbox().enqueue(a_message());
  EXPECT_TRUE(hears(*watch));
}

TEST_P(PostgresWatch, works_before_the_tables_exist_and_after_they_are_made_anew) {
  const auto watch = make_postgres_driver(test_store().address(), {}, {})
                         ->watch({test_store().schema(), "outbox"})(std::stop_token{});
  outbox().enqueue(a_message());
  EXPECT_TRUE(hears(*watch));
  write("drop schema \"" + test_store().schema() + "\" cascade");
  Database database(test_store().address());
  Outbox again(database, options());
  again.enqueue(a_message());
  EXPECT_TRUE(hears(*watch));
}

TEST_P(PostgresWatch, long_and_odd_names_have_a_channel) {
  for (const std::string& table : {std::string(40, 'x'), std::string{"a \"b\" 'c' {d}"}}) {
    BoxOptions chosen = options();
    chosen.table = table;
    Outbox box(database(), chosen);
    const auto watch = make_postgres_driver(test_store().address(), {}, {})
                           ->watch({chosen.schema, table})(std::stop_token{});
    box.enqueue(a_message());
    EXPECT_TRUE(hears(*watch)) << table;
  }
  const NotifyChannel long_one = channel_of({std::string(63, 's'), std::string(40, 'x')});
  EXPECT_LE(long_one.name.size(), 63u);
  EXPECT_NE(long_one.name, channel_of({std::string(63, 's'), std::string(40, 'y')}).name);
}

TEST_P(PostgresWatch, says_when_its_connection_has_ended) {
  const auto watch = open(test_store().address());
  PgClient admin(test_store().address());
  admin.run(
      "select pg_terminate_backend(pid) from pg_stat_activity where query like "
      "'%; listen %' and pid <> pg_backend_pid()");
  try {
    hears(*watch);
    ADD_FAILURE() << "the end of the connection was not noticed";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::connection_lost);
    EXPECT_NE(std::string{error.what()}.find("postgresql://"), std::string::npos) << error.what();
  }
}

TEST_P(PostgresWatch, is_impossible_behind_a_pooler_even_when_the_address_does_not_say_so) {
  const std::string pooler = test_setting("TWINBOX_TEST_PGBOUNCER");
  const BoxName box{options().schema, "outbox"};
  EXPECT_FALSE(
      make_postgres_driver(with_setting(pooler, "twinbox_pooler=transaction"), {}, {})->watch(box));
  const auto forgotten = make_postgres_driver(pooler, {}, {})->watch(box);
  ASSERT_TRUE(forgotten);
  try {
    forgotten(std::stop_token{});
    ADD_FAILURE() << "a pooler was taken for the server";
  } catch (const WatchImpossible& reason) {
    EXPECT_NE(std::string{reason.what()}.find("twinbox_pooler=transaction"), std::string::npos);
  }
}

TEST_P(PostgresWatch, writers_behind_a_pooler_are_heard) {
  const auto watch = open(test_store().address());
  Database database(
      with_setting(test_setting("TWINBOX_TEST_PGBOUNCER"), "twinbox_pooler=transaction"));
  BoxOptions there = options();
  Outbox box(database, there);
  box.enqueue(a_message());
  EXPECT_TRUE(hears(*watch));
}

TEST_P(PostgresWatch, gives_up_connecting_when_it_is_told_to) {
  PostgresWire silent(test_store().address());
  silent.swallow_answers();
  std::stop_source stop;
  auto opening = std::async(std::launch::async, [&] {
    return make_postgres_driver(silent.address(), {}, {})
        ->watch({options().schema, "outbox"})(stop.get_token());
  });
  stop.request_stop();
  try {
    opening.get();
    ADD_FAILURE() << "connected";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::cancelled);
  }
}

TEST_P(PostgresWatch, a_call_gives_up_when_it_is_told_to_though_only_its_login_was_answered) {
  PostgresWire silent(test_store().address());
  silent.swallow_after_login();  // as a pooler that has no server to give
  std::stop_source stop;
  auto opening = std::async(std::launch::async, [&] {
    const StopScope until_stop{stop.get_token()};
    make_postgres_driver(silent.address(), {}, {})->connect(Access::write);
  });
  while (!silent.swallows() && opening.wait_for(0s) != std::future_status::ready) {
  }
  stop.request_stop();
  EXPECT_EQ(opening.wait_for(30s), std::future_status::ready);
  silent.cut();  // ends what does not end by itself
  try {
    opening.get();
    ADD_FAILURE() << "connected";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::cancelled) << error.what();
  }
}

TWINBOX_ON_BACKENDS(PostgresWatch, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
