// Database::in_transaction as a caller uses it: what it returns, whose sessions it takes, and what
// becomes of it when a call forgets the session or another database fails.
#include <memory>
#include <string>

#include "support/inbox_test.hpp"
#include "support/null_row.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class Transaction : public InboxTest {
 protected:
  void SetUp() override {
    outbox();
    inbox();
  }

  /// What the UsageError of `call` says.
  template <class F>
  static std::string refusal(F&& call) {
    try {
      call();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "not refused";
  }
};

TEST_P(Transaction, returns_what_its_function_returns) {
  const std::int64_t sum = database().in_transaction([](Session& session) {
    std::int64_t found = 0;
    session.execute("select 40 + 2", {}, [&](const Row& row) { found = row.integer(0); });
    return found;
  });
  EXPECT_EQ(sum, 42);
  const std::unique_ptr<MessageId> id = database().in_transaction([&](Session& session) {
    return std::make_unique<MessageId>(outbox().enqueue(session, a_message()).id);
  });
  EXPECT_TRUE(Admin{outbox()}.get(*id));
}

TEST_P(Transaction, OBX_003_a_call_that_forgets_the_session_is_refused) {
  const auto refuse = [&](const char* call, auto&& work) {
    const std::string said = refusal([&] { database().in_transaction([&](Session&) { work(); }); });
    EXPECT_NE(said.find("store test store"), std::string::npos) << call << ": " << said;
    EXPECT_NE(said.find("pass the Session"), std::string::npos) << call << ": " << said;
  };
  refuse("enqueue", [&] { outbox().enqueue(a_message()); });
  refuse("enqueue a batch", [&] { outbox().enqueue(std::vector{a_message(), a_message()}); });
  refuse("accept", [&] { inbox().accept(an_arrival()); });
  refuse("try_claim",
         [&] { static_cast<void>(inbox().try_claim(a_key(), Topic{"payment.received"})); });
  refuse("claim", [&] { static_cast<void>(outbox().claim(worker_a)); });
  EXPECT_EQ(read("select count(*) from {schema}outbox_message"), "0");
  EXPECT_EQ(count_messages(), "0");
  EXPECT_NO_THROW(outbox().enqueue(a_message())) << "after the transaction";
}

TEST_P(Transaction, a_transactional_handler_that_forgets_the_session_is_told) {
  outbox().enqueue(a_message());
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](Session&, const Message&) { outbox().enqueue(a_message("mail.send")); });
  Dispatcher{outbox(), handlers}.drain();
  const auto entries = Admin{outbox()}.list({}).entries;
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_NE(entries[0].delivery.last_error.find("pass the Session"), std::string::npos)
      << entries[0].delivery.last_error;
}

TEST_P(Transaction, OBX_003_a_session_of_another_database_is_refused_by_name) {
  Database other{"sqlite::memory:", {.name = "billing"}};
  // On SQLite another file, or other memory; on a server SQLite is refused as another dialect.
  const std::string said = refusal([&] {
    other.in_transaction([&](Session& session) { outbox().enqueue(session, a_message()); });
  });
  EXPECT_NE(said.find("of the box's own database"), std::string::npos) << said;
  if (on_sqlite()) {
    EXPECT_NE(said.find("store test store"), std::string::npos) << said;
    EXPECT_NE(said.find("billing"), std::string::npos) << said;
  }
  EXPECT_EQ(read("select count(*) from {schema}outbox_message"), "0");
}

TEST_P(Transaction, another_pool_of_the_same_database_is_as_good) {
  if (GetParam() == Backend::sqlite_memory) GTEST_SKIP() << "memory has one pool";
  Database again{test_store().address(), {.name = "again"}, environment()};
  again.in_transaction([&](Session& session) { outbox().enqueue(session, a_message()); });
  EXPECT_EQ(outbox().claim(worker_a).size(), 1u);
}

TEST_P(Transaction, an_error_of_another_database_leaves_this_one_as_it_was) {
  TestEnvironment world;
  FaultPlan faults;
  Database other = open_faulty("sqlite::memory:", faults, {.retries = 0}, world.environment());
  for (const auto kind :
       {DatabaseError::Kind::connection_lost, DatabaseError::Kind::commit_in_doubt}) {
    outbox().enqueue(a_message());
    EXPECT_THROW(database().in_transaction([&](Session& session) {
      outbox().enqueue(session, a_message());
      throw DatabaseError{kind, "another database is away"};
    }),
                 DatabaseError);
    EXPECT_EQ(outbox().claim(worker_a).size(), 1u) << to_string(kind);
  }
}

TEST_P(Transaction, null_and_missing_columns_are_the_same_on_every_database) {
  const std::string typed = on_sqlserver()  ? "select cast(null as bigint), cast(null as bit), "
                                              "cast(null as nvarchar(10)), cast(null as datetime2)"
                            : on_postgres() ? "select null::bigint, null::boolean, null::text, "
                                              "null::timestamptz"
                                            : "select null, null, null, null";
  database().in_transaction([&](Session& session) {
    std::size_t rows = 0;
    session.execute(typed, {}, [&](const Row& row) {
      ++rows;
      expect_nulls(row, 4);
    });
    EXPECT_EQ(rows, 1u);
  });
}

TWINBOX_ON_EVERY_BACKEND(Transaction);

class PostgresTransaction : public Transaction {};

TEST_P(PostgresTransaction, OBX_003_a_session_of_another_database_is_refused_by_name) {
  std::string address = test_store().address();
  address.replace(address.rfind("/twinbox"), std::string::npos, "/postgres");
  Database other{address};
  const std::string said = refusal([&] {
    other.in_transaction([&](Session& session) { outbox().enqueue(session, a_message()); });
  });
  EXPECT_NE(said.find("store test store"), std::string::npos) << said;
  EXPECT_NE(said.find("/postgres)"), std::string::npos) << said;
}

TEST_P(PostgresTransaction, a_wrong_number_of_parameters_is_no_lost_connection) {
  try {
    database().in_transaction([](Session& session) { session.execute("select $1::int"); });
    ADD_FAILURE() << "a parameter without a value was accepted";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.native_code(), "08P01");
    EXPECT_EQ(error.kind(), DatabaseError::Kind::invalid_request) << error.what();
    EXPECT_FALSE(error.retryable());
    EXPECT_NE(std::string_view{error.what()}.find("@name"), std::string_view::npos) << error.what();
  }
}

TWINBOX_ON_BACKENDS(PostgresTransaction, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
