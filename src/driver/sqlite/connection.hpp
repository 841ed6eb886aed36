// A SQLite connection of our own.
#pragma once

#include <memory>
#include <string>

#include <sqlite3.h>

#include "database/connection.hpp"
#include "driver/sqlite/busy_wait.hpp"
#include "driver/sqlite/checkpoint.hpp"
#include "driver/sqlite/executor.hpp"
#include "driver/sqlite/handle.hpp"
#include "driver/sqlite/store_file.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

class SqliteConnection final : public Connection {
 public:
  /// Opens `file`, creating it when it is missing, and switches it to write-ahead logging.
  /// `store` is shared with the driver and its other connections; null for `:memory:`. Throws
  /// DatabaseError.
  SqliteConnection(const std::string& file, std::shared_ptr<StoreFile> store, Access access,
                   const DatabaseOptions& options, const Environment& environment);
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;
  ~SqliteConnection() override = default;

  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::sqlite; }
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows) override;
  [[nodiscard]] bool in_transaction() const override { return handle_.in_transaction(); }

  void begin(Access access, Scope scope) override;
  void commit() override;
  void rollback() noexcept override;
  [[nodiscard]] bool usable() const noexcept override { return !handle_.broken; }
  void interrupt() noexcept override;

 private:
  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
  };
  using Owned = std::unique_ptr<sqlite3, Close>;

  static Owned open(const std::string& file, const std::string& when_busy);

  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override;
  void refuse_read_only_file();
  void switch_to_wal();
  void set_synchronous(Access access);
  void wait_when_busy(bool waits) noexcept;
  void refuse_to_confirm() const;
  void checkpoint() noexcept;
  void notify_other_processes() noexcept;
  void refuse_rolled_back(std::string_view what) const;
  [[nodiscard]] DatabaseError commit_error();

  Environment environment_;
  Owned db_;
  SqliteHandle handle_;
  BusyWait busy_wait_;
  SqliteExecutor executor_;
  PreparedStatement begin_;
  PreparedStatement begin_immediate_;
  PreparedStatement commit_;
  PreparedStatement rollback_;
  bool in_memory_;
  std::shared_ptr<StoreFile> store_;
  std::unique_ptr<StoreFile::Use> use_;  ///< after db_: ends before it is closed
  std::unique_ptr<Checkpoints> checkpoints_;
  std::string directory_;
  Access synchronous_ = Access::read;  ///< the access `synchronous` was last set for; read: not yet
  Access access_ = Access::read;
  Scope scope_ = Scope::statement;
};

}  // namespace twinbox
