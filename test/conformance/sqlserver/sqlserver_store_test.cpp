// What is particular to a store on SQL Server: its connection, its errors, its locks.
#include <barrier>
#include <thread>

#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class SqlServerStore : public OutboxTest {
 protected:
  Kind refusal(const std::string& sql) {
    try {
      write(sql);
    } catch (const DatabaseError& error) {
      return error.kind();
    }
    throw std::logic_error("it was not refused: " + sql);
  }
};

/// Which server the run was on, for docs/contributing/requirements.md.
TEST_P(SqlServerStore, tells_its_name_and_version) {
  const std::string version = read("select cast(serverproperty('ProductVersion') as nvarchar(99))");
  const std::string babelfish =
      read("select cast(serverproperty('BabelfishVersion') as nvarchar(99))");
  EXPECT_NE(version, "null");
  RecordProperty("server", babelfish == "null"
                               ? "SQL Server " + version
                               : "a stand-in, Babelfish for PostgreSQL " + babelfish +
                                     " (as SQL Server " + version + "), not SQL Server itself");
}

TEST_P(SqlServerStore, values_of_every_type_come_back) {
  const std::string text = "a\xC3\xA9\xF0\x9F\x98\x80'\"\\";
  const std::string longer(10'000, 'x');
  const std::string bytes("\0\xff~", 3);
  const Instant moment{std::chrono::microseconds{1'794'797'400'123'456}};
  const Uuid uuid = Uuid::parse("01234567-89ab-4def-8123-456789abcdef");
  int rows = 0;
  database().in_transaction([&](Session& session) {
    session.execute(
        "select @i, @r, @t, @b, @at, @u, @yes, cast(@none as bigint), @t, @long, len(@long)",
        {{"i", std::int64_t{-9'000'000'000}},
         {"r", 1.5},
         {"t", text},
         {"b", Bytes{bytes}},
         {"at", moment},
         {"u", uuid},
         {"yes", true},
         {"none", Value{}},
         {"long", longer}},
        [&](const Row& row) {
          ++rows;
          EXPECT_EQ(row.integer(0), -9'000'000'000);
          EXPECT_EQ(row.real(1), 1.5);
          EXPECT_EQ(row.text(2), text);
          EXPECT_EQ(row.bytes(3), bytes);
          EXPECT_EQ(row.instant(4), moment);
          EXPECT_EQ(row.uuid(5), uuid);
          EXPECT_TRUE(row.boolean(6));
          EXPECT_TRUE(row.is_null(7));
          EXPECT_EQ(row.text(8), text);
          EXPECT_EQ(row.text(9), longer);
          EXPECT_EQ(row.integer(10), 10'000);
        });
  });
  EXPECT_EQ(rows, 1);
}

TEST_P(SqlServerStore, a_large_payload_is_streamed_in_and_out) {
  std::string content{payload_mark};
  for (int i = 0; i < 3'000'000; ++i) content.push_back(static_cast<char>(i * 7 + i / 256));
  NewMessage message = a_message();
  message.payload = content;
  outbox().enqueue(std::vector{message, a_message()});
  std::size_t whole = 0;
  for (const Message& claimed : outbox().claim(worker_a, 30s, 10)) {
    if (claimed.payload == content) ++whole;
  }
  EXPECT_EQ(whole, 1u);
}

TEST_P(SqlServerStore, errors_have_a_kind) {
  outbox();
  EXPECT_EQ(refusal("select * from {schema}nothing"), Kind::missing_schema);
  EXPECT_EQ(refusal("select from"), Kind::invalid_request);
  EXPECT_EQ(refusal("select 1 / 0"), Kind::invalid_request);
  write("create table {schema}keys (id int primary key)");
  write("insert into {schema}keys values (1)");
  EXPECT_EQ(refusal("insert into {schema}keys values (1)"), Kind::invalid_request);
  EXPECT_EQ(refusal("insert into {schema}keys values (null)"), Kind::invalid_request);
  EXPECT_EQ(refusal("throw 50001, 'mine', 1"), Kind::invalid_request);
}

TEST_P(SqlServerStore, a_wrong_password_is_a_matter_of_permission) {
  std::string address = test_store().address();
  const auto at = address.find("PWD=");
  ASSERT_NE(at, std::string::npos);
  address.replace(at, address.find(';', at) - at, "PWD=certainly wrong");
  Database database(address, {.retries = 0});
  try {
    database.in_transaction([](Session&) {});
    FAIL() << "the password was taken";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), Kind::permission) << error.what();
    EXPECT_EQ(std::string_view{error.what()}.find("certainly wrong"), std::string_view::npos);
  }
}

TEST_P(SqlServerStore, an_argument_that_is_missing_is_named) {
  database().in_transaction([&](Session& session) {
    EXPECT_THROW(session.execute("select @a, @b", {{"a", 1}}), std::invalid_argument);
  });
}

TEST_P(SqlServerStore, an_error_leaves_a_callers_transaction_usable) {
  outbox();
  write("create table {schema}keys (id int primary key)");
  database().in_transaction([&](Session& session) {
    session.execute(in_schema("insert into {schema}keys values (1)"));
    EXPECT_THROW(session.execute(in_schema("insert into {schema}keys values (1)")), DatabaseError);
    ASSERT_TRUE(session.in_transaction());
    session.execute(in_schema("insert into {schema}keys values (2)"));
  });
  EXPECT_EQ(count("select count(*) from {schema}keys"), 2);
}

TEST_P(SqlServerStore, OBX_082_a_deadlock_ends_one_of_the_two_as_retryable) {
  outbox();
  write("create table {schema}pair (id int primary key, n int)");
  write("insert into {schema}pair values (1, 0), (2, 0)");
  std::barrier both_hold_one{2};
  std::atomic<int> victims = 0;
  std::atomic<int> others = 0;
  const auto cross = [&](int first, int second) {
    Database own(test_store().address(), {.retries = 0}, environment());
    const auto add = [&](Session& session, int id) {
      session.execute(in_schema("update {schema}pair set n = n + 1 where id = @id"), {{"id", id}});
    };
    try {
      own.in_transaction([&](Session& session) {
        add(session, first);
        both_hold_one.arrive_and_wait();
        add(session, second);
      });
    } catch (const DatabaseError& error) {
      ++(error.kind() == Kind::contention && error.retryable() ? victims : others);
      if (error.kind() != Kind::contention) ADD_FAILURE() << error.what();
    }
  };
  {
    std::jthread one{[&] { cross(1, 2); }};
    std::jthread two{[&] { cross(2, 1); }};
  }
  EXPECT_EQ(victims, 1);
  EXPECT_EQ(others, 0);
  EXPECT_EQ(count("select sum(n) from {schema}pair"), 2) << "the other one has committed";
}

TWINBOX_ON_BACKENDS(SqlServerStore, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
