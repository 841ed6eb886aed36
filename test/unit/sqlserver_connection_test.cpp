// What a connection to SQL Server leaves on the server when a call ends in its middle; through a
// server, where TWINBOX_TEST_SQLSERVER names one.
#include "driver/sqlserver/sqlserver_connection.hpp"

#include <functional>
#include <future>

#include <gtest/gtest.h>

#include "database/answer_timeout.hpp"
#include "driver/sqlserver/address.hpp"
#include "support/backend.hpp"
#include "support/reused_schema.hpp"

namespace twinbox::sqlserver {
namespace {

using namespace std::chrono_literals;
using Kind = DatabaseError::Kind;

class SqlServerCancelled : public ::testing::Test {
 protected:
  SqlServerCancelled() { test::skip_without_server(test::Backend::sqlserver); }

  void TearDown() override {
    if (IsSkipped()) return;
    SqlServerConnection last{address(), transaction_sql(10s)};
    last.execute("if object_id('" + table_ + "') is not null drop table " + table_);
  }

  static Address address() { return parse_address(test::sqlserver_address()); }
  static Kind kind_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const DatabaseError& error) {
      return error.kind();
    }
    throw std::logic_error("it was not refused");
  }
  /// Whether somebody is at work who has said so by mark().
  bool marked(Session& session) const {
    std::int64_t answer = 0;
    session.execute("declare @answer int; exec @answer = sp_getapplock @Resource = '" + table_ +
                        "', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 1; "
                        "select @answer",
                    {}, [&](const Row& row) { answer = row.integer(0); });
    return answer < 0;
  }
  [[nodiscard]] std::string mark() const {
    return "exec sp_getapplock @Resource = '" + table_ +
           "', @LockMode = 'Exclusive', @LockOwner = 'Session'; ";
  }
  [[nodiscard]] std::string insert(int id) const {
    return "insert into " + table_ + " values (" + std::to_string(id) + ")";
  }

  std::string table_ = test::unique_name();
};

// A driver manager that pools keeps the connection that we close: what it holds, it would hold on.
TEST_F(SqlServerCancelled, is_rolled_back_before_the_connection_is_closed) {
  SqlServerConnection other{address(), transaction_sql(10s)};
  other.execute("create table " + table_ + " (id int primary key)");
  other.begin(Access::write, Scope::caller);
  other.execute(insert(2));

  SqlServerConnection one{address(), transaction_sql(10min)};
  one.begin(Access::write, Scope::caller);
  one.execute(insert(1));
  auto waits = std::async(std::launch::async,
                          [&] { return kind_of([&] { one.execute(mark() + insert(2)); }); });
  SqlServerConnection observer{address(), transaction_sql(10s)};
  for (bool waiting = false; !waiting;) {
    observer.begin(Access::write, Scope::caller);
    waiting = marked(observer);
    observer.rollback();
  }
  one.interrupt();
  other.rollback();  // Babelfish hears of a cancel when what runs has ended
  EXPECT_EQ(waits.get(), Kind::cancelled);
  one.rollback();
  EXPECT_FALSE(one.usable()) << "nobody knows what the server still does for it";

  observer.begin(Access::write, Scope::statement);
  EXPECT_NO_THROW(observer.execute(insert(1))) << "the cancelled transaction still holds its row";
  observer.commit();
}

// answer_timeout as ODBC's query timeout: the server is ten times as slow as it may be.
TEST_F(SqlServerCancelled, ends_a_statement_that_the_server_does_not_answer_in_time) {
  SqlServerConnection one{address(), transaction_sql(10s), 1s};
  one.begin(Access::write, Scope::transaction);
  EXPECT_EQ(kind_of([&] { one.execute("waitfor delay '00:00:10'"); }), Kind::connection_lost);
  one.rollback();
  EXPECT_FALSE(one.usable()) << "nobody knows what the server still does for it";
}

TEST_F(SqlServerCancelled, lets_a_migration_take_longer_than_the_answer_limit) {
  SqlServerConnection one{address(), transaction_sql(10s), 1s};
  const WithoutAnswerTimeout unlimited;
  one.begin(Access::write, Scope::transaction);
  EXPECT_NO_THROW(one.execute("waitfor delay '00:00:02'"));
  one.rollback();
  EXPECT_TRUE(one.usable());
}

}  // namespace
}  // namespace twinbox::sqlserver
