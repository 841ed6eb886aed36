// What the tests of the SQLite driver share: a file of their own, and statements made by hand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "driver/sqlite/sqlite_driver.hpp"
#include "sql/statement.hpp"
#include "twinbox/error.hpp"

namespace twinbox::sqlite_test {

using namespace std::chrono_literals;
using Kind = DatabaseError::Kind;

inline Statement statement(std::string_view name, std::vector<Step> steps) {
  static std::atomic<std::uint32_t> number{1'000'000};
  return {.name = name, .number = number++, .steps = std::move(steps)};
}

inline Statement statement(std::string_view name, std::string sql) {
  return statement(name, std::vector<Step>{{.sql = std::move(sql), .params = {}}});
}

inline std::size_t run(Session& session, const Statement& what, std::vector<Arg> args = {},
                       RowSink rows = {}) {
  return session.execute(what, args, rows);
}

inline std::int64_t number_of(Session& session, std::string_view sql) {
  std::int64_t result = -1;
  session.execute(sql, {}, [&](const Row& row) { result = row.integer(0); });
  return result;
}

inline std::string text_of(Session& session, std::string_view sql) {
  std::string result;
  session.execute(sql, {}, [&](const Row& row) { result = row.text(0); });
  return result;
}

/// The error that `act` throws; the test fails when it throws none.
template <class F>
DatabaseError error_of(F&& act) {
  try {
    act();
  } catch (const DatabaseError& error) {
    return error;
  }
  ADD_FAILURE() << "no DatabaseError was thrown";
  return {Kind::other, ""};
}

inline bool mentions(const std::exception& error, std::string_view words) {
  return std::string_view{error.what()}.find(words) != std::string_view::npos;
}

class SqliteDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    auto name = (std::filesystem::temp_directory_path() / "twinbox_sqlite_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    file_ = directory_ / "store.db";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::unique_ptr<Driver> driver() const {
    return make_sqlite_driver(file_.string(), options_, {});
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(Access access = Access::write) const {
    return driver()->connect(access);
  }
  void in_transaction(Connection& connection, const std::function<void()>& work,
                      Access access = Access::write, Scope scope = Scope::transaction) {
    connection.begin(access, scope);
    try {
      work();
    } catch (...) {
      connection.rollback();
      throw;
    }
    connection.commit();
  }
  void create(Connection& connection, std::string_view sql) {
    in_transaction(connection, [&] { connection.execute(sql); });
  }

  std::filesystem::path directory_;
  std::filesystem::path file_;
  DatabaseOptions options_ = {.wait_timeout = 10ms};
};

}  // namespace twinbox::sqlite_test
