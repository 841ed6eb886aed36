// PqxxSession with the interfaces of libpqxx 7.0, 7.7, 7.10 and 8.0, by a stand-in:
// conformance_test runs it with the real one that is installed.
#include <gtest/gtest.h>

#include <twinbox/pqxx.hpp>

namespace twinbox {
namespace {

using Kind = DatabaseError::Kind;

class PqxxStandIn : public ::testing::Test {
 protected:
  PqxxStandIn() {
    transaction.answer = [this](const std::string& sql, const pqxx::Parameters& values) {
      asked = sql;
      given = values;
      return answer;
    };
  }
  template <class Error>
  DatabaseError error_after(const Error& thrown) {
    transaction.answer = [thrown](const std::string&, const pqxx::Parameters&) -> pqxx::result {
      throw thrown;
    };
    PqxxSession session{transaction};
    try {
      session.execute("select 1");
    } catch (const DatabaseError& error) {
      EXPECT_FALSE(session.in_transaction());
      return error;
    }
    throw std::logic_error("nothing was thrown");
  }

  pqxx::connection connection;
  pqxx::dbtransaction transaction{connection};
  pqxx::result answer;
  std::string asked;
  pqxx::Parameters given;
};

TEST_F(PqxxStandIn, hands_over_parameters_and_nulls_in_order) {
  PqxxSession session{transaction};
  answer.affected = 2;
  EXPECT_EQ(session.execute("insert into t values (@a, @b)", {{"a", "x"}, {"b", Value{}}}), 2u);
  EXPECT_EQ(given, (pqxx::Parameters{"x", std::nullopt}));
  EXPECT_NE(asked.find("$1"), std::string::npos);
}

TEST_F(PqxxStandIn, reads_rows_and_nulls) {
  PqxxSession session{transaction};
  answer.cells = {{"7", std::nullopt}, {"8", "text"}};
  std::vector<std::string> read;
  session.execute("select a, b from t", {}, [&](const Row& row) {
    read.push_back(std::string{row.text(0)} + (row.is_null(1) ? "" : std::string{row.text(1)}));
  });
  EXPECT_EQ(read, (std::vector<std::string>{"7", "8text"}));
}

TEST_F(PqxxStandIn, its_exceptions_become_errors_of_ours) {
  EXPECT_EQ(error_after(pqxx::in_doubt_error{"who knows"}).kind(), Kind::commit_in_doubt);
  EXPECT_EQ(error_after(pqxx::sql_error{"twice", "23505"}).native_code(), "23505");
  EXPECT_EQ(error_after(pqxx::failure{"something"}).kind(), Kind::other);
}

// Before 7.8 it throws the former for 08P01, since then the latter.
TEST_F(PqxxStandIn, values_that_do_not_fit_are_refused_and_a_closed_connection_is_lost) {
  const pqxx::broken_connection broken{"bind message supplies 0 parameters"};
  const pqxx::sql_error violation{"bind message supplies 0 parameters", "08P01"};
  for (const DatabaseError& refused : {error_after(broken), error_after(violation)}) {
    EXPECT_EQ(refused.kind(), Kind::invalid_request);
    EXPECT_EQ(refused.native_code(), "08P01");
  }
  connection.open = false;
  EXPECT_EQ(error_after(broken).kind(), Kind::connection_lost);
  EXPECT_EQ(error_after(violation).kind(), Kind::connection_lost);
}

TEST_F(PqxxStandIn, a_transaction_that_cannot_be_used_is_a_usage_error) {
  transaction.answer = [](const std::string&, const pqxx::Parameters&) -> pqxx::result {
    throw pqxx::usage_error{"ended"};
  };
  PqxxSession session{transaction};
  EXPECT_FALSE(session.in_transaction());
  EXPECT_THROW(session.execute("select 1"), UsageError);
}

TEST_F(PqxxStandIn, a_closed_connection_has_no_transaction) {
  PqxxSession session{transaction};
  EXPECT_TRUE(session.in_transaction());
  connection.open = false;
  EXPECT_FALSE(session.in_transaction());
}

}  // namespace
}  // namespace twinbox
