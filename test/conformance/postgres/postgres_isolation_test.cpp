// A caller's transaction that keeps one snapshot for all its statements: what cannot be right in it
// is refused, the rest works.
#include <array>
#include <tuple>

#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class PostgresIsolation : public BoxTest {
 protected:
  PostgresIsolation() : client_(test_store().address()) {
    inbox();
    outbox();
  }

  /// Begins a transaction whose snapshot is taken now.
  void begin(const std::string& level) {
    client_.run("begin isolation level " + level);
    client_.run("select 1");
  }

  template <class F>
  void expect_refused(F body) {
    try {
      body();
      ADD_FAILURE() << "was not refused";
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), Kind::invalid_request) << error.what();
      EXPECT_NE(std::string_view{error.what()}.find("read committed"), std::string_view::npos)
          << error.what();
    }
    client_.rollback();
  }

  LibpqSession& session() { return client_.session(); }

  PgClient client_;
};

constexpr std::array levels{"repeatable read", "serializable"};

NewMessage with_key(std::string id) {
  NewMessage message = a_message();
  message.id = MessageId{std::move(id)};
  message.extras.partition_key = PartitionKey{"customer 1"};
  return message;
}

TEST_P(PostgresIsolation, an_enqueue_with_a_partition_key_never_waits_behind_a_head_that_is_gone) {
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    const std::string id = std::string{"behind in "} + level;
    outbox().enqueue(with_key(std::string{"head in "} + level));
    const auto head = outbox().claim(worker_a, 30s, 1);
    begin(level);
    ASSERT_EQ(outbox().ack(worker_a, head), 1u);
    expect_refused([&] { outbox().enqueue(session(), with_key(id)); });
    client_.begin();
    outbox().enqueue(session(), with_key(id));
    client_.commit();
    const auto next = outbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(next.size(), 1u);
    EXPECT_EQ(outbox().ack(worker_a, next), 1u);
  }
}

TEST_P(PostgresIsolation, an_ack_of_a_keys_head_never_passes_over_what_came_behind_it_since) {
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    outbox().enqueue(with_key(std::string{"head in "} + level));
    const auto head = outbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(head.size(), 1u);
    begin(level);
    outbox().enqueue(with_key(std::string{"behind in "} + level));
    expect_refused([&] { outbox().ack(session(), worker_a, head); });
    EXPECT_EQ(outbox().ack(worker_a, head), 1u);
    const auto next = outbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(next.size(), 1u);
    EXPECT_EQ(outbox().ack(worker_a, next), 1u);
  }
}

TEST_P(PostgresIsolation, IBX_033_an_accept_adds_no_work_beside_what_was_done_since) {
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    const std::string id = level;
    EXPECT_FALSE(inbox().already_processed(a_key(id)));
    begin(level);
    EXPECT_TRUE(inbox().mark_processed(a_key(id)));
    expect_refused([&] { inbox().accept(session(), an_arrival(id)); });
    EXPECT_EQ(inbox().state(a_key(id)), MessageState::done);
    EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  }
}

TEST_P(PostgresIsolation, an_accept_of_a_message_that_was_pruned_since_is_refused) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    inbox().mark_processed(an_arrival(level));
    clock().advance(48h);
    begin(level);
    ASSERT_EQ(inbox().prune({.older_than = 24h}), 1u);
    expect_refused([&] { inbox().accept(session(), an_arrival(level), handlers); });
  }
}

TEST_P(PostgresIsolation, an_accept_of_a_message_that_came_since_is_to_be_repeated) {
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    begin(level);
    inbox().accept(an_arrival(level));
    try {
      inbox().accept(session(), an_arrival(level));
      ADD_FAILURE() << "was not refused";
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), Kind::contention) << error.what();
    }
    client_.rollback();
  }
}

TEST_P(PostgresIsolation, MBH_14_a_gate_does_not_let_through_what_was_requeued_since) {
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    const std::string id = level;
    inbox().accept(an_arrival(id));
    ASSERT_TRUE(inbox().mark_dead(a_key(id)));
    begin(level);
    ASSERT_EQ(Admin{inbox()}.requeue(Filter{.state = StateFilter::dead}), 1u);
    expect_refused(
        [&] { std::ignore = inbox().try_claim(session(), a_key(id), Topic{"payment.received"}); });
    const auto work = inbox().claim(worker_a, 30s, 10);
    ASSERT_EQ(work.size(), 1u);
    EXPECT_EQ(inbox().ack(worker_a, work), 1u);
  }
}

TEST_P(PostgresIsolation, a_gate_does_not_let_through_what_was_pruned_since) {
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    ASSERT_TRUE(inbox().try_claim(a_key(level), Topic{"payment.received"}));
    clock().advance(48h);
    begin(level);
    ASSERT_EQ(inbox().prune({.older_than = 24h}), 1u);
    expect_refused([&] {
      std::ignore = inbox().try_claim(session(), a_key(level), Topic{"payment.received"});
    });
  }
}

TEST_P(PostgresIsolation, MBH_14_a_gate_joins_the_transaction_for_a_message_that_is_new) {
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    begin(level);
    EXPECT_TRUE(inbox().try_claim(session(), a_key(level), Topic{"payment.received"}));
    client_.commit();
    EXPECT_FALSE(inbox().try_claim(a_key(level), Topic{"payment.received"}));
  }
}

TEST_P(PostgresIsolation, new_messages_without_a_partition_key_are_written) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  for (const char* level : levels) {
    SCOPED_TRACE(level);
    begin(level);
    outbox().enqueue(session(), std::vector<NewMessage>(3, a_message()));
    client_.run("select " + test_store().schema() +
                ".outbox_enqueue('order.placed', 'by function')");
    inbox().accept(session(), an_arrival(level), handlers);
    client_.commit();
    const auto messages = outbox().claim(worker_a, 30s, 10);
    EXPECT_EQ(messages.size(), 4u);
    EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 2u);
    begin(level);
    EXPECT_EQ(outbox().ack(session(), worker_a, messages), 4u);
    client_.commit();
  }
}

TWINBOX_ON_BACKENDS(PostgresIsolation, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
