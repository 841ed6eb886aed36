// A caller's transaction: the box takes part in it and leaves its end to the caller.
#include <tuple>

#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

struct Changed_my_mind : std::runtime_error {
  Changed_my_mind() : std::runtime_error("changed my mind") {}
};

class CallerTransaction : public OutboxTest {
 protected:
  /// Runs `work` in a transaction that is then rolled back.
  void roll_back(const std::function<void(Session&)>& work) {
    EXPECT_THROW(database().in_transaction([&](Session& session) {
      work(session);
      throw Changed_my_mind{};
    }),
                 Changed_my_mind);
  }
  void with_orders() {
    outbox();
    write("create table {schema}orders (name text)");
  }
  std::string insert_order() const {
    return in_schema("insert into {schema}orders (name) values (@name)");
  }
};

TEST_P(CallerTransaction, OBX_003_enqueue_commits_with_the_callers_own_rows) {
  with_orders();
  database().in_transaction([&](Session& session) {
    session.execute(insert_order(), {{"name", "17"}});
    outbox().enqueue(session, a_message());
    EXPECT_TRUE(session.in_transaction());
    session.execute(insert_order(), {{"name", "18"}});
  });
  EXPECT_EQ(count("select count(*) from {schema}orders"), 2);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(CallerTransaction, OBX_003_enqueue_leaves_nothing_when_the_caller_rolls_back) {
  with_orders();
  roll_back([&](Session& session) {
    session.execute(insert_order(), {{"name", "17"}});
    outbox().enqueue(session, a_message());
    NewMessage keyed = a_message();
    keyed.extras.partition_key = PartitionKey{"k"};
    outbox().enqueue(session, std::vector{keyed, a_message()});
  });
  EXPECT_EQ(count("select count(*) from {schema}orders"), 0);
  EXPECT_EQ(rows("message"), 0);
  EXPECT_EQ(rows("work"), 0);
}

TEST_P(CallerTransaction, every_operation_is_undone_with_the_caller) {
  REQUIREMENT("OBX-003");
  outbox().enqueue(std::vector<NewMessage>(6, a_message("held")));
  const auto held = outbox().claim(worker_a, 120s, 6);
  ASSERT_EQ(held.size(), 6u);
  ASSERT_EQ(outbox().release(worker_a, held[5]), 1u);
  NewMessage expiring = a_message("expiring");
  expiring.extras.expires_at = clock().now() + 60s;
  outbox().enqueue(expiring);
  clock().advance(61s);
  const auto picture = [&] {
    if (on_sqlserver()) {
      return read(
          "select concat(count(*), ' ', sum(epoch), ' ', sum(attempts), ' ', count(owner)) from "
          "{schema}outbox_work");
    }
    return read(
        "select cast(count(*) as text) || ' ' || cast(sum(epoch) as text) || ' ' || "
        "cast(sum(attempts) as text) || ' ' || cast(count(owner) as text) from "
        "{schema}outbox_work");
  };
  const std::string before = picture();
  roll_back([&](Session& session) {
    EXPECT_EQ(outbox().ack(session, worker_a, held[0]), 1u);
    EXPECT_EQ(outbox().abandon(session, worker_a, held[1], "error"), 1u);
    EXPECT_EQ(outbox().fail(session, worker_a, held[2], "error"), 1u);
    EXPECT_EQ(outbox().release(session, worker_a, held[3]), 1u);
    EXPECT_EQ(outbox().renew(session, worker_a, held[4], 300s).size(), 1u);
    EXPECT_EQ(outbox().claim(session, worker_b, 30s, 10).size(), 2u);
    clock().advance(301s);
    EXPECT_GE(outbox().reap(session), 1u);
    EXPECT_EQ(outbox().expire(session), 1u);
    EXPECT_EQ(outbox().prune(session, {.older_than = 0s, .include_dead = true}), 3u);
  });
  EXPECT_EQ(picture(), before);
  EXPECT_EQ(rows("outcome"), 0);
  EXPECT_EQ(rows("failure"), 0);
}

TEST_P(CallerTransaction, a_claimed_message_is_acked_with_the_handlers_own_rows) {
  with_orders();
  const Message message = enqueue_and_claim(worker_a);
  database().in_transaction([&](Session& session) {
    session.execute(insert_order(), {{"name", "17"}});
    EXPECT_EQ(outbox().ack(session, worker_a, message), 1u);
  });
  EXPECT_EQ(count("select count(*) from {schema}orders"), 1);
  EXPECT_EQ(shown("Status"), "2");
}

TEST_P(CallerTransaction, wrong_arguments_leave_the_transaction_usable) {
  const Message message = enqueue_and_claim(worker_a);
  database().in_transaction([&](Session& session) {
    EXPECT_THROW(std::ignore = outbox().claim(session, worker_a, 0s, 1), std::out_of_range);
    EXPECT_THROW(outbox().reap(session, 0), std::out_of_range);
    NewMessage wrong = a_message();
    wrong.extras.headers = "no json";
    EXPECT_THROW(outbox().enqueue(session, std::vector{a_message(), wrong}), std::invalid_argument);
    EXPECT_EQ(outbox().ack(session, worker_a, message), 1u);
  });
  EXPECT_EQ(rows("message"), 1);
  EXPECT_EQ(shown("Status"), "2");
}

TEST_P(CallerTransaction, a_duplicate_raises_no_error_inside_it) {
  NewMessage message = a_message();
  message.id = MessageId{"x"};
  outbox().enqueue(message);
  database().in_transaction([&](Session& session) {
    outbox().enqueue(session, message);
    outbox().enqueue(session, std::vector{message, a_message()});
  });
  EXPECT_EQ(rows("message"), 2);
}

TEST_P(CallerTransaction, an_own_call_inside_it_is_refused_when_it_would_wait_for_itself) {
  Database single(test_store().address(), {.pool_size = 1}, environment());
  Outbox outbox(single, options());
  single.in_transaction([&](Session& session) {
    EXPECT_THROW(outbox.enqueue(a_message()), UsageError);
    outbox.enqueue(session, a_message());
  });
  EXPECT_EQ(outbox.claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(CallerTransaction, a_null_pointer_among_its_arguments_is_a_null) {
  const char* unset = nullptr;
  int nulls = 0;
  database().in_transaction([&](Session& session) {
    session.execute("select cast(@a as varchar(9)), cast(@b as varchar(9))",
                    {{"a", nullptr}, {"b", unset}},
                    [&](const Row& row) { nulls += int{row.is_null(0)} + int{row.is_null(1)}; });
  });
  EXPECT_EQ(nulls, 2);
}

TEST_P(CallerTransaction, its_session_cannot_end_it) {
  outbox();
  EXPECT_THROW(database().in_transaction([](Session& session) { session.execute("commit"); }),
               UsageError);
  EXPECT_THROW(database().in_transaction([](Session& session) { session.execute("rollback"); }),
               UsageError);
}

TEST_P(CallerTransaction, a_session_of_another_dialect_is_refused) {
  Database other(on_sqlite() ? TestStore(Backend::postgres).address() : "sqlite::memory:");
  outbox();
  other.in_transaction([&](Session& session) {
    EXPECT_THROW(outbox().enqueue(session, a_message()), UsageError);
    EXPECT_THROW(std::ignore = outbox().claim(session, worker_a, 30s, 1), UsageError);
    EXPECT_THROW(outbox().ack(session, worker_a, DeliveryId{1}), UsageError);
  });
  EXPECT_EQ(rows("message"), 0);
}

TWINBOX_ON_EVERY_BACKEND(CallerTransaction);

class SqliteCallerTransaction : public OutboxTest {};

TEST_P(SqliteCallerTransaction, an_error_in_the_middle_of_a_batch_leaves_no_half_and_no_dead_end) {
  refuse_topic("boom");
  NewMessage keyed = a_message("boom");
  keyed.extras.partition_key = PartitionKey{"k"};
  database().in_transaction([&](Session& session) {
    outbox().enqueue(session, a_message("before"));
    EXPECT_THROW(outbox().enqueue(session, std::vector{a_message("a"), a_message("boom")}),
                 DatabaseError);
    EXPECT_THROW(outbox().enqueue(session, std::vector{a_message("a"), keyed}), DatabaseError);
    outbox().enqueue(session, a_message("after"));
  });
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)),
            (std::vector<std::string>{"before", "after"}));
}

TEST_P(SqliteCallerTransaction, an_error_in_the_middle_of_a_settle_leaves_no_half) {
  outbox().enqueue(std::vector<NewMessage>(3, a_message()));
  const auto held = outbox().claim(worker_a, 30s, 3);
  write("create trigger refuse before insert on outbox_outcome when new.delivery_id = " +
        std::to_string(held.at(1).delivery_id.number()) +
        " begin select raise(abort, 'refused'); end");
  database().in_transaction([&](Session& session) {
    EXPECT_THROW(outbox().ack(session, worker_a, held), DatabaseError);
    EXPECT_EQ(outbox().ack(session, worker_a, held[2]), 1u);
  });
  EXPECT_EQ(rows("outcome"), 1);
  EXPECT_EQ(rows("work"), 2);
}

TEST_P(SqliteCallerTransaction, nothing_more_is_written_once_sqlite_has_rolled_it_back) {
  write("create table orders (id integer primary key)");
  const auto insert = [](Session& session, int id) {
    session.execute("insert or rollback into orders values (@id)", {{"id", id}});
  };
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    insert(session, 1);
    EXPECT_THROW(insert(session, 1), DatabaseError);
    EXPECT_THROW(insert(session, 2), DatabaseError);
    EXPECT_THROW(session.execute("insert into orders values (3) returning id"), DatabaseError);
  }),
               DatabaseError);
  EXPECT_EQ(read("select count(*) from orders"), "0");
  database().in_transaction([&](Session& session) { insert(session, 4); });
  EXPECT_EQ(read("select count(*) from orders"), "1");
}

TWINBOX_ON_BACKENDS(SqliteCallerTransaction, Backend::sqlite_file, Backend::sqlite_memory);

}  // namespace
}  // namespace twinbox::test
