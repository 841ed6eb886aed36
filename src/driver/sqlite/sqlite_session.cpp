#include <filesystem>
#include <stdexcept>
#include <string>

#include <sqlite3.h>

#include "driver/sqlite/executor.hpp"
#include "driver/sqlite/handle.hpp"
#include "twinbox/session.hpp"

namespace twinbox {
namespace {

sqlite3* checked(sqlite3* connection) {
  if (connection == nullptr) {
    throw std::invalid_argument("SqliteSession: the sqlite3 connection is null; open it first");
  }
  return connection;
}

std::string file_of(sqlite3* connection) {
  const char* file = sqlite3_db_filename(connection, "main");
  return file == nullptr || *file == '\0' ? ":memory:" : file;
}

}  // namespace

class SqliteSession::State {
 public:
  explicit State(sqlite3* connection)
      : handle_(connection, file_of(connection),
                "another connection holds the file: set a sqlite3_busy_timeout, or roll back and "
                "try again"),
        executor_(handle_) {
    std::error_code failed;
    if (handle_.file != ":memory:") {
      database_ = std::filesystem::weakly_canonical(handle_.file, failed).string();
    }
  }

  /// In the form of SqliteDriver::location().
  [[nodiscard]] const std::string& database() const noexcept { return database_; }

  [[nodiscard]] bool in_transaction() const noexcept { return handle_.in_transaction(); }

  template <class Sql>
  std::size_t execute(std::string_view what, const Sql& sql, std::span<const Arg> args,
                      RowSink rows) {
    if (!in_transaction()) {
      throw UsageError(std::string{what} +
                       ": no transaction is open on this sqlite3 connection: begin one first (" +
                       handle_.file + ")");
    }
    return executor_.execute_for_caller(sql, args, rows);
  }

 private:
  SqliteHandle handle_;
  SqliteExecutor executor_;
  std::string database_ = ":memory:";
};

SqliteSession::SqliteSession(sqlite3* connection)
    : state_(std::make_unique<State>(checked(connection))) {}

SqliteSession::~SqliteSession() = default;

Dialect SqliteSession::dialect() const noexcept { return Dialect::sqlite; }

bool SqliteSession::in_transaction() const { return state_->in_transaction(); }

std::string_view SqliteSession::database() const noexcept { return state_->database(); }

std::size_t SqliteSession::execute(const Statement& statement, std::span<const Arg> args,
                                   RowSink rows) {
  return state_->execute(statement.name, statement, args, rows);
}

std::size_t SqliteSession::execute_text(std::string_view sql, std::span<const Arg> args,
                                        RowSink rows) {
  return state_->execute("execute", sql, args, rows);
}

}  // namespace twinbox
