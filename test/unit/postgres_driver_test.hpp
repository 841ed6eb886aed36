// What the tests of the PostgreSQL driver share: connections, and statements made by hand.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "driver/postgres/postgres_driver.hpp"
#include "sql/render.hpp"
#include "twinbox/error.hpp"

namespace twinbox::postgres_test {

using Kind = DatabaseError::Kind;

inline Step step(std::string_view sql) {
  auto [text, params] = rewrite_parameters(sql, Dialect::postgres);
  return {std::move(text), std::move(params)};
}

/// A statement as the .sql files would give it.
inline Statement own(std::vector<std::string_view> sql, std::string_view call = {}) {
  static std::atomic<std::uint32_t> numbers{1'000'000};
  Statement statement{"own", numbers++, {}, {}};
  for (const auto text : sql) statement.steps.push_back(step(text));
  if (!call.empty()) statement.call = {step(call)};
  return statement;
}

inline std::size_t run(Session& session, const Statement& statement,
                       std::initializer_list<Arg> args = {}, RowSink rows = {}) {
  return session.execute(statement, {args.begin(), args.size()}, rows);
}

inline std::string text_of(Session& session, std::string_view sql,
                           std::initializer_list<Arg> args = {}) {
  std::string result = "no row";
  session.execute(sql, args, [&](const Row& row) { result = row.text(0); });
  return result;
}

template <class F>
std::optional<DatabaseError> error_of(F&& act) {
  try {
    act();
  } catch (const DatabaseError& error) {
    return error;
  }
  return {};
}

class PostgresDriver : public testing::Test {
 protected:
  void SetUp() override {
    const char* address = std::getenv("TWINBOX_TEST_POSTGRES");
    if (address == nullptr)
      GTEST_SKIP() << "TWINBOX_TEST_POSTGRES is not set: no server to test with";
    address_ = address;
  }

  [[nodiscard]] std::string with(std::string_view setting) const {
    if (address_.find("://") == std::string::npos) return address_ + " " + std::string{setting};
    return address_ + (address_.find('?') == std::string::npos ? "?" : "&") + std::string{setting};
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(std::string_view setting = {}) const {
    return make_postgres_driver(setting.empty() ? address_ : with(setting), {}, {})
        ->connect(Access::write);
  }
  [[nodiscard]] std::unique_ptr<Connection> behind_pooler() const {
    return connect("twinbox_pooler=transaction");
  }

  /// A connection of the caller's own, with an open transaction.
  struct Native {
    explicit Native(const std::string& address) : handle(PQconnectdb(address.c_str()), &PQfinish) {
      query("begin");
    }
    void query(const char* sql) const { PQclear(PQexec(handle.get(), sql)); }
    std::unique_ptr<PGconn, decltype(&PQfinish)> handle;
  };

  void terminate(const std::string& pid) const {
    auto other = connect();
    other->begin(Access::write, Scope::statement);
    ASSERT_EQ(text_of(*other, "select pg_terminate_backend(@pid::int, 10000)", {{"pid", pid}}),
              "t");
  }

  std::string address_;
};

inline std::string pid_of(Session& session) { return text_of(session, "select pg_backend_pid()"); }

}  // namespace twinbox::postgres_test
