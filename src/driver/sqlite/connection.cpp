#include "driver/sqlite/connection.hpp"

#include <fcntl.h>
#include <filesystem>
#include <new>
#include <unistd.h>
#include <utility>

namespace twinbox {
namespace {

std::string way_out_of_busy(const DatabaseOptions& options) {
  return "another connection or process held the file for longer than wait_timeout (" +
         std::to_string(options.wait_timeout.count()) +
         " ms): make its transactions shorter, or raise wait_timeout";
}

bool is_busy(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_BUSY || primary == SQLITE_LOCKED || primary == SQLITE_PROTOCOL;
}

}  // namespace

SqliteConnection::Owned SqliteConnection::open(const std::string& file,
                                               const std::string& when_busy) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      file.c_str(), &db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  Owned owned{db};
  if (owned == nullptr) throw std::bad_alloc{};
  if (code != SQLITE_OK) throw SqliteHandle{db, file, when_busy}.error("open");
  return owned;
}

SqliteConnection::SqliteConnection(const std::string& file, std::shared_ptr<StoreFile> store,
                                   Access access, const DatabaseOptions& options,
                                   const Environment& environment)
    : environment_(environment),
      db_(open(file, way_out_of_busy(options))),
      handle_(db_.get(), file, way_out_of_busy(options)),
      busy_wait_(options.wait_timeout, environment, handle_.interrupted),
      executor_(handle_),
      in_memory_(store == nullptr),
      store_(std::move(store)) {
  wait_when_busy(true);
  if (access != Access::read) refuse_read_only_file();
  switch_to_wal();
  if (store_ != nullptr) {
    use_ = std::make_unique<StoreFile::Use>(store_, db_.get());
    checkpoints_ = std::make_unique<Checkpoints>(db_.get());
  }
  directory_ = std::filesystem::path{sqlite3_db_filename(db_.get(), "main")}.parent_path();
  begin_ = prepare(handle_, "open", "begin");
  begin_immediate_ = prepare(handle_, "open", "begin immediate");
  commit_ = prepare(handle_, "open", "commit");
  rollback_ = prepare(handle_, "open", "rollback");
}

void SqliteConnection::wait_when_busy(bool waits) noexcept {
  constexpr auto wait = [](void* how, int tries) {
    return (*static_cast<BusyWait*>(how))(tries) ? 1 : 0;
  };
  sqlite3_busy_handler(db_.get(), waits ? +wait : nullptr, &busy_wait_);
}

void SqliteConnection::refuse_read_only_file() {
  if (sqlite3_db_readonly(db_.get(), "main") != 1) return;
  throw DatabaseError(
      DatabaseError::Kind::read_only,
      "open: the file cannot be written to; give this user write permission for the file and "
      "its directory (" +
          handle_.file + ")",
      std::to_string(SQLITE_READONLY));
}

void SqliteConnection::switch_to_wal() {
  if (in_memory_ || sqlite3_db_readonly(db_.get(), "main") == 1) return;
  // SQLite does not call the busy handler for two connections that switch to WAL at once and would
  // wait for each other: both get a busy error, and one of them must retry.
  for (int tries = 0;; ++tries) {
    sqlite3_stmt* raw = nullptr;
    int code = sqlite3_prepare_v2(db_.get(), "pragma journal_mode = wal", -1, &raw, nullptr);
    const PreparedStatement statement{raw};
    if (code == SQLITE_OK) code = sqlite3_step(raw);
    if (code == SQLITE_ROW) {
      if (SqliteRow{raw}.text(0) == "wal") return;
      throw DatabaseError(
          DatabaseError::Kind::other,
          "open: write-ahead logging is not possible here; put the file on a local disk (" +
              handle_.file + ")");
    }
    if (is_busy(code)) {
      const auto error = handle_.error("open");
      if (!busy_wait_(tries)) throw error;
    } else {
      throw handle_.error("open");
    }
  }
}

// A claim need not survive a power cut (its workers do not either); everything else is synced at
// commit.
void SqliteConnection::set_synchronous(Access access) {
  if (in_memory_ || access == Access::read || access == synchronous_) return;
  const char* sql =
      access == Access::write ? "pragma synchronous = full" : "pragma synchronous = normal";
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    throw handle_.error("begin");
  synchronous_ = access;
}

void SqliteConnection::begin(Access access, Scope scope) {
  if (store_ != nullptr) store_->check("begin");
  set_synchronous(access);
  run_to_end(handle_, "begin", access == Access::read ? begin_.get() : begin_immediate_.get());
  if (store_ != nullptr && access != Access::read) store_->remember_log();
  access_ = access;
  scope_ = scope;
}

// Outside of a transaction SQLite commits each statement by itself.
void SqliteConnection::refuse_rolled_back(std::string_view what) const {
  if (scope_ != Scope::caller || handle_.in_transaction()) return;
  throw DatabaseError(DatabaseError::Kind::other,
                      std::string{what} +
                          ": SQLite has rolled back this transaction after an earlier error, and "
                          "nothing more is written in it; run it again (" +
                          handle_.file + ")");
}

std::size_t SqliteConnection::execute(const Statement& statement, std::span<const Arg> args,
                                      RowSink rows) {
  refuse_rolled_back(statement.name);
  return scope_ == Scope::caller ? executor_.execute_for_caller(statement, args, rows)
                                 : executor_.execute(statement, args, rows);
}

std::size_t SqliteConnection::execute_text(std::string_view sql, std::span<const Arg> args,
                                           RowSink rows) {
  refuse_rolled_back("execute");
  return scope_ == Scope::caller ? executor_.execute_for_caller(sql, args, rows)
                                 : executor_.execute(sql, args, rows);
}

void SqliteConnection::commit() {
  handle_.interrupted = false;
  if (!handle_.in_transaction()) {
    throw DatabaseError(
        DatabaseError::Kind::other,
        "commit: SQLite has rolled back this transaction after an earlier error, and nothing "
        "of it was committed; run it again (" +
            handle_.file + ")");
  }
  const int code = sqlite3_step(commit_.get());
  if (code == SQLITE_DONE) {
    sqlite3_reset(commit_.get());
    scope_ = Scope::statement;
    refuse_to_confirm();
    notify_other_processes();
    checkpoint();
    return;
  }
  const auto error = commit_error();
  sqlite3_reset(commit_.get());
  rollback();
  throw error;
}

// A commit to a file that lost its name meanwhile may be gone with the next restart.
void SqliteConnection::refuse_to_confirm() const {
  if (store_ == nullptr || access_ == Access::read) return;
  const std::string problem = store_->problem();
  if (problem.empty()) return;
  throw DatabaseError(
      DatabaseError::Kind::commit_in_doubt,
      "commit: " + problem + "; look whether the changes are there before you repeat them",
      std::to_string(SQLITE_READONLY_DBMOVED));
}

void SqliteConnection::checkpoint() noexcept {
  if (checkpoints_ == nullptr || access_ == Access::read || !checkpoints_->due()) return;
  // Its commit is done, so its caller waits for no other writer: the next commit retries it.
  wait_when_busy(false);
  const int code = sqlite3_step(begin_immediate_.get());
  sqlite3_reset(begin_immediate_.get());
  wait_when_busy(true);
  if (code == SQLITE_DONE) checkpoints_->run();
  rollback();
}

// Watchers of the directory saw the commit being written, but not when it became visible: opening
// the directory is the second signal. It changes nothing there, so that the next sync has no more
// to write. A claim adds nothing new.
void SqliteConnection::notify_other_processes() noexcept {
  if (access_ != Access::write || in_memory_) return;
  const int opened = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened >= 0) ::close(opened);
}

DatabaseError SqliteConnection::commit_error() {
  const int code = sqlite3_extended_errcode(db_.get());
  auto error = handle_.error("commit");
  // The frames were written, but the disk did not confirm them: the next reader of the file may or
  // may not find them. Every other failure comes before that point.
  if ((code & 0xff) != SQLITE_IOERR || access_ == Access::read) return error;
  return {DatabaseError::Kind::commit_in_doubt,
          std::string{error.what()} + "; look whether the changes are there before you repeat them",
          error.native_code()};
}

void SqliteConnection::rollback() noexcept {
  handle_.interrupted = false;
  scope_ = Scope::statement;
  if (!handle_.in_transaction()) return;
  const int code = sqlite3_step(rollback_.get());
  sqlite3_reset(rollback_.get());
  if (code == SQLITE_DONE || !handle_.in_transaction()) return;
  handle_.broken = true;
  try {
    environment_.write(LogLevel::warning, "rollback",
                       {{"file", std::string_view{handle_.file}}, {"code", std::int64_t{code}}});
  } catch (...) {  // an exception of the log changes nothing: the connection is closed, which
                   // undoes the rest
  }
}

void SqliteConnection::interrupt() noexcept {
  handle_.interrupted = true;
  sqlite3_interrupt(db_.get());
}

}  // namespace twinbox
