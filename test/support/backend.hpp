// The databases that the conformance suite runs on, and a fixture with an own store for each test.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/requirement.hpp"
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {

using namespace std::chrono_literals;

enum class Backend { sqlite_file, sqlite_memory, postgres, sqlserver };

std::string to_string(Backend backend);
std::ostream& operator<<(std::ostream& out, Backend backend);

/// The backends of this run: all, or those that TWINBOX_TEST_BACKENDS names (`sqlite`, `postgres`,
/// `sqlserver`).
std::vector<Backend> backends();
/// Those of `wanted` that belong to this run.
std::vector<Backend> backends(std::initializer_list<Backend> wanted);

/// Marks the test that is being constructed as skipped when it needs a SQL Server and nobody has
/// named one: TWINBOX_TEST_SQLSERVER, an ODBC connection string.
void skip_without_server(Backend backend);

/// Every payload of the suite carries this mark; no log may show it.
inline constexpr std::string_view payload_mark = "~payload~";

/// Keeps what was logged; fails the test when a payload shows. Thread-safe.
class LogBook : public RecordingLog {
 public:
  void write(const LogEvent& event);
};

/// A name that nobody else has used, in this run or another.
std::string unique_name();

/// An address for a database of its own: a new file, memory, or a new schema on the test server.
/// Removed by the destructor.
class TestStore {
 public:
  explicit TestStore(Backend backend);
  ~TestStore();
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// `infra` on SQLite, a name of its own on a server.
  [[nodiscard]] const std::string& schema() const noexcept { return schema_; }
  /// Says that the tables are not what they were: no other test may have them.
  void change() noexcept { changed_ = true; }
  /// The file of a SQLite store.
  [[nodiscard]] const std::string& file() const noexcept { return file_; }

 private:
  Backend backend_;
  std::string address_;
  std::string schema_;
  std::string file_;
  bool changed_ = false;
};

/// One store per test, with a clock and a log of the test's own.
class BoxTest : public ::testing::TestWithParam<Backend> {
 protected:
  BoxTest();
  ~BoxTest() override;

  [[nodiscard]] bool on_postgres() const { return GetParam() == Backend::postgres; }
  [[nodiscard]] bool on_sqlserver() const { return GetParam() == Backend::sqlserver; }
  [[nodiscard]] bool on_sqlite() const { return !on_postgres() && !on_sqlserver(); }

  ManualClock& clock() { return clock_; }
  LogBook& log() { return log_; }
  TestStore& test_store() { return test_store_; }
  /// An environment with this test's clock and log.
  Environment environment();
  /// Options with this test's schema, and the tables deployed.
  BoxOptions options();

  Database& database();
  Outbox& outbox();
  Inbox& inbox();
  /// Reads one value as text from the test's store; `{schema}` stands for the schema and its dot.
  std::string read(const std::string& sql);
  /// Executes SQL of the test's own.
  void write(const std::string& sql);
  std::string in_schema(std::string sql) const;
  /// Renames a table of the test's store.
  void rename_table(const std::string& from, const std::string& to);

  const OwnerToken worker_a{Uuid::parse("00000000-0000-4000-8000-00000000000a")};
  const OwnerToken worker_b{Uuid::parse("00000000-0000-4000-8000-00000000000b")};

 private:
  ManualClock clock_;
  LogBook log_;
  TestStore test_store_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<Inbox> inbox_;
};

/// A payload that carries the mark.
std::string payload(std::string_view text = "content");

/// A message for the outbox.
NewMessage a_message(std::string topic = "order.placed", std::string_view content = "content");

/// A message for the inbox.
Arrival an_arrival(std::string id = "evt_1", std::string source = "stripe",
                   std::string topic = "payment.received");

MessageKey a_key(std::string id = "evt_1", std::string source = "stripe");

std::vector<DeliveryId> ids_of(const std::vector<Message>& messages);

}  // namespace twinbox::test

/// Runs the tests of a suite on every backend; the backend is the last part of a test's name.
#define TWINBOX_ON_EVERY_BACKEND(Suite)                             \
  INSTANTIATE_TEST_SUITE_P(                                         \
      all, Suite, ::testing::ValuesIn(::twinbox::test::backends()), \
      [](const auto& test) { return ::twinbox::test::to_string(test.param); })

/// Runs the tests of a suite on the named backends only: what is tested exists nowhere else.
#define TWINBOX_ON_BACKENDS(Suite, ...)                                          \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite);                          \
  INSTANTIATE_TEST_SUITE_P(                                                      \
      all, Suite, ::testing::ValuesIn(::twinbox::test::backends({__VA_ARGS__})), \
      [](const auto& test) { return ::twinbox::test::to_string(test.param); })
