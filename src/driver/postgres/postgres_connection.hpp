// A connection of our own to PostgreSQL.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <libpq-fe.h>

#include "database/connection.hpp"
#include "driver/postgres/connect.hpp"
#include "driver/postgres/failure.hpp"
#include "driver/postgres/pipeline.hpp"
#include "sql/statement.hpp"

namespace twinbox::postgres {

/// Every call is one pipeline. A begin waits for the first statement and is sent with it.
class PostgresConnection final : public Connection {
 public:
  /// Takes a new connection. Behind a pooler in transaction mode, or in an unnamed mode, no state
  /// is kept on the server beyond a transaction. Outside of a caller's transaction a lock is waited
  /// for as long as `limits.lock`. Throws DatabaseError, kind `cancelled` when a stop is requested.
  struct Limits {
    std::chrono::milliseconds lock{0};    ///< zero: as the server says
    std::chrono::milliseconds answer{0};  ///< zero: none
  };
  PostgresConnection(Handle connection, Pooler pooler, std::string where, Limits limits,
                     const std::stop_token& stop = {});

  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::postgres; }
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows) override;
  [[nodiscard]] bool in_transaction() const override;

  void begin(Access access, Scope scope) override;
  void commit() override;
  void rollback() noexcept override;
  [[nodiscard]] bool usable() const noexcept override;
  [[nodiscard]] std::string_view server_identity() const noexcept override {
    return server_identity_;
  }
  void interrupt() noexcept override { interrupt_wanted_ = true; }

 private:
  /// A statement that this connection has prepared.
  struct Prepared {
    std::string name;
    std::vector<Oid> types;
  };
  /// A statement that is prepared in the pipeline of its first use.
  struct Preparation {
    std::uint64_t key;
    std::size_t index;
    Prepared prepared;
  };

  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override;

  void apply_settings(const std::stop_token& stop);
  /// Throws connection_lost when the server has closed the connection before `action`.
  void notice_a_closed_socket(std::string_view action);
  void check_interrupted(std::string_view action) const;
  /// Adds the begin when it is pending, or when a pooler needs one around a single statement.
  void add_begin(Pipeline& pipeline);
  void add_end(Pipeline& pipeline);
  std::size_t add_step(Pipeline& pipeline, const Statement& statement, std::size_t number,
                       const Step& step, const Parameters& parameters,
                       std::vector<Preparation>& preparations);
  void remember(const Pipeline& pipeline, std::vector<Preparation>& preparations);
  /// Flushes the pipeline; throws when an answer is an error. `may_commit` says that it may commit
  /// a write.
  void flush(Pipeline& pipeline, std::string_view statement, bool ours, bool may_commit,
             bool used_cache);
  [[noreturn]] void fail_lost(const Pipeline& pipeline, std::string_view statement, bool ours,
                              bool may_commit);
  [[nodiscard]] bool commits_alone() const noexcept;

  static void on_notice(void* self, const PGresult* notice) noexcept;

  Handle connection_;
  std::shared_ptr<PGcancel> cancel_;  // shared with a running cancel request
  std::string where_;
  std::string server_identity_;  // empty behind a pooler that may change the server
  Limits limits_;
  std::chrono::milliseconds answer_timeout_{0};  // of the current call
  std::string set_lock_wait_timeout_;  // sent with each begin of our own, where no state is kept
  bool pooler_;                        // no state is kept on the server beyond a transaction
  bool broken_ = false;                // answers are missing: the next one could not be attributed
  bool closing_ =
      false;  // the server has announced the end of the connection, or got a cancel request
  bool gave_up_standby_ = false;  // the server has committed without waiting for its standby
  bool read_only_ = false;        // the server has refused a write in this transaction
  std::atomic<bool> interrupt_wanted_ = false;
  Access access_ = Access::read;
  Scope scope_ = Scope::statement;
  bool active_ = false;  // between begin() and its commit() or rollback()
  bool begin_owed_ = false;
  std::unordered_map<std::uint64_t, Prepared> prepared_;
  unsigned generation_ = 0;  // of prepared statements: a new one after the server has lost the old
};

}  // namespace twinbox::postgres
