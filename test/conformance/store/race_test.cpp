// What "Identity and races" promises on every backend.
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <tuple>

#include "support/backend.hpp"

namespace twinbox::test {
namespace {

class Race : public BoxTest {
 protected:
  /// Every row of every table, so that two looks can be compared.
  std::string everything() {
    std::string all;
    inbox();
    outbox();
    for (const char* box : {"inbox", "outbox"}) {
      for (const char* columns :
           {"_message(number, seen_count, content_version, last_seen_at, topic)",
            "_work(id, number, epoch, attempts, expiries, visible_at, owner, lease_until)",
            "_outcome(number, state, handler, finished_at)", "_failure(id, number, attempt)"}) {
        all += rows_of(box + std::string{columns});
      }
    }
    return all;
  }

  /// Does it in a caller's transaction that fails at its end.
  void roll_back(const std::function<void(Session&)>& body) {
    EXPECT_THROW(database().in_transaction([&](Session& session) {
      body(session);
      throw std::runtime_error("the caller's own failure");
    }),
                 std::runtime_error);
  }

 private:
  /// `table(column, …)` as text, ordered.
  std::string rows_of(const std::string& description) {
    const std::size_t open = description.find('(');
    const std::string columns = description.substr(open + 1, description.size() - open - 2);
    std::string rows = description + "\n";
    database().in_transaction([&](Session& session) {
      const auto count = 1 + std::count(columns.begin(), columns.end(), ',');
      session.execute(in_schema("select " + columns + " from {schema}" +
                                description.substr(0, open) + " order by 1, 2, 3"),
                      {}, [&](const Row& row) {
                        for (int i = 0; i < count; ++i) {
                          rows += row.is_null(i) ? "null " : std::string{row.text(i)} + " ";
                        }
                        rows += "\n";
                      });
    });
    return rows;
  }
};

TEST_P(Race, IBX_014_equal_ids_in_one_call_are_one_message) {
  const std::vector<Arrival> twice{an_arrival("b"), an_arrival("a"), an_arrival("b"),
                                   an_arrival("b", "other source")};
  const auto answers = inbox().accept(twice);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].state, Acceptance::accepted);
  EXPECT_EQ(answers[1].state, Acceptance::accepted);
  EXPECT_EQ(answers[2].state, Acceptance::duplicate_open);
  EXPECT_EQ(answers[3].state, Acceptance::accepted);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 3u);
  EXPECT_EQ(inbox().accept(twice)[2].state, Acceptance::duplicate_open);
}

TEST_P(Race, equal_ids_with_handlers_and_keys_in_one_call_are_one_message) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  std::vector<Arrival> twice{an_arrival("b"), an_arrival("b"), an_arrival("a")};
  for (Arrival& arrival : twice) arrival.extras.partition_key = PartitionKey{"customer 1"};
  const auto answers = inbox().accept(twice, handlers);
  EXPECT_EQ(answers[0].state, Acceptance::accepted);
  EXPECT_EQ(answers[1].state, Acceptance::duplicate_open);
  EXPECT_EQ(answers[2].state, Acceptance::accepted);
  EXPECT_EQ(read("select count(*) from {schema}inbox_work"), "4");
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 2u) << "one head for each handler";
}

TEST_P(Race, equal_ids_in_one_enqueue_are_one_message) {
  NewMessage message = a_message();
  message.id = MessageId{"same"};
  const std::vector<NewMessage> twice{message, message};
  EXPECT_EQ(outbox().enqueue(twice).size(), 2u);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(Race, the_database_itself_refuses_a_second_delivery_for_a_handler) {
  outbox().enqueue(a_message());
  EXPECT_THROW(
      write("insert into {schema}outbox_work (number, visible_at) select number, visible_at "
            "from {schema}outbox_work"),
      DatabaseError);
  ASSERT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10)), 1u);
  EXPECT_THROW(
      write("insert into {schema}outbox_outcome (number, finished_at, state) select number, "
            "finished_at, 2 from {schema}outbox_outcome"),
      DatabaseError);
}

TEST_P(Race, a_work_id_is_never_used_twice) {
  DeliveryId last{0};
  for (int i = 0; i < 3; ++i) {
    outbox().enqueue(a_message());
    const auto claimed = outbox().claim(worker_a, 30s, 10);
    ASSERT_EQ(claimed.size(), 1u);
    EXPECT_GT(claimed.front().delivery_id, last);
    last = claimed.front().delivery_id;
    ASSERT_EQ(outbox().ack(worker_a, claimed), 1u);
    clock().advance(48h);
    ASSERT_EQ(outbox().prune({.older_than = 24h}), 1u);
  }
}

TEST_P(Race, a_late_ack_never_hits_a_newer_message) {
  outbox().enqueue(a_message());
  const auto old = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(outbox().ack(worker_a, old), 1u);
  outbox().enqueue(a_message());
  ASSERT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_EQ(outbox().ack(worker_a, ids_of(old)), 0u);
}

TEST_P(Race, OBX_003_a_rollback_of_the_caller_leaves_nothing_of_an_enqueue) {
  NewMessage keyed = a_message();
  keyed.extras.partition_key = PartitionKey{"customer 1"};
  const std::string before = everything();
  roll_back([&](Session& session) {
    outbox().enqueue(session, a_message());
    outbox().enqueue(session, std::vector<NewMessage>{a_message(), keyed, keyed});
  });
  EXPECT_EQ(everything(), before);
}

TEST_P(Race, a_rollback_of_the_caller_leaves_nothing_of_an_arrival) {
  inbox().accept(an_arrival("open"));
  inbox().observe(a_key("seen"));
  const std::string before = everything();
  roll_back([&](Session& session) {
    inbox().accept(session, an_arrival("new"));
    inbox().accept(session, an_arrival("open"));
    std::ignore = inbox().accept_and_claim(session, an_arrival("inline"), worker_a, 30s);
    inbox().observe(session, a_key("unknown"));
    std::ignore = inbox().already_processed(session, a_key("open"), ContentHash::of("content"));
    std::ignore = inbox().try_claim(session, a_key("gate"), Topic{"payment"});
    std::ignore = inbox().mark_processing(session, a_key("seen"));
    inbox().mark_processed(session, a_key("open"));
    inbox().mark_processed(session, an_arrival("envelope"));
    inbox().mark_dead(session, a_key("seen"), "no");
  });
  EXPECT_EQ(everything(), before);
}

TEST_P(Race, a_rollback_of_the_caller_leaves_nothing_of_a_claim_or_a_settle) {
  for (int i = 0; i < 6; ++i) outbox().enqueue(a_message());
  const auto held = outbox().claim(worker_a, 30s, 5);
  ASSERT_EQ(held.size(), 5u);
  const std::string before = everything();
  roll_back([&](Session& session) {
    EXPECT_EQ(outbox().claim(session, worker_b, 30s, 10).size(), 1u);
    EXPECT_EQ(outbox().ack(session, worker_a, held[0]), 1u);
    EXPECT_EQ(outbox().abandon(session, worker_a, held[1], "error"), 1u);
    EXPECT_EQ(outbox().fail(session, worker_a, held[2], "error"), 1u);
    EXPECT_EQ(outbox().release(session, worker_a, held[3]), 1u);
    EXPECT_EQ(outbox().renew(session, worker_a, held[4], 90s).size(), 1u);
  });
  EXPECT_EQ(everything(), before);
  EXPECT_EQ(outbox().ack(worker_a, held), 5u);
}

TEST_P(Race, a_rollback_of_the_caller_leaves_nothing_of_housekeeping) {
  NewMessage expiring = a_message();
  expiring.extras.expires_at = clock().now() + 1min;
  outbox().enqueue(std::vector<NewMessage>{a_message(), a_message()});
  ASSERT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1)), 1u);
  outbox().enqueue(expiring);
  ASSERT_EQ(outbox().claim(worker_a, 30s, 1).size(), 1u);
  clock().advance(48h);
  const std::string before = everything();
  roll_back([&](Session& session) {
    EXPECT_EQ(outbox().reap(session), 1u);
    EXPECT_EQ(outbox().expire(session), 1u);
    EXPECT_EQ(outbox().prune(session, {.older_than = 24h}), 1u);
  });
  EXPECT_EQ(everything(), before);
}

TEST_P(Race, OBX_003_the_callers_own_rows_and_the_message_are_one_transaction) {
  REQUIREMENT("OBX-002");
  outbox();
  write("create table {schema}orders (number integer)");
  roll_back([&](Session& session) {
    session.execute(in_schema("insert into {schema}orders values (1)"));
    outbox().enqueue(session, a_message());
  });
  EXPECT_EQ(read("select count(*) from {schema}orders"), "0");
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  database().in_transaction([&](Session& session) {
    session.execute(in_schema("insert into {schema}orders values (1)"));
    outbox().enqueue(session, a_message());
    EXPECT_TRUE(session.in_transaction());
  });
  EXPECT_EQ(read("select count(*) from {schema}orders"), "1");
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(Race, claim_ack_abandon_and_fail_take_one_statement) {
  std::vector<std::string> statements;
  Environment watched = environment();
  watched.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
    statements.emplace_back(statement);
  };
  Database database(test_store().address(), {}, watched);
  Outbox box(database, options());
  for (int i = 0; i < 3; ++i) box.enqueue(a_message());
  statements.clear();
  const auto held = box.claim(worker_a, 30s, 10);
  ASSERT_EQ(held.size(), 3u);
  EXPECT_EQ(box.ack(worker_a, held[0]), 1u);
  EXPECT_EQ(box.abandon(worker_a, held[1], "error"), 1u);
  EXPECT_EQ(box.fail(worker_a, held[2], "error"), 1u);
  EXPECT_EQ(statements, (std::vector<std::string>{"claim", "ack", "abandon", "fail"}));
}

TWINBOX_ON_EVERY_BACKEND(Race);

}  // namespace
}  // namespace twinbox::test
