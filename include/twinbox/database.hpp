// A database: a bounded pool of connections and transactions on them.
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "twinbox/environment.hpp"
#include "twinbox/error.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

class Pool;

struct DatabaseOptions {
  /// The store's name in logs; empty means the database's own name, without a password.
  std::string name = {};
  /// How many connections may be open at once. At least 1.
  std::size_t pool_size = 8;
  /// How long a call waits for a connection, a busy SQLite file or a locked row before it fails.
  std::chrono::milliseconds wait_timeout = std::chrono::seconds{10};
  /// How long a server may take to answer a login, a statement or a commit. Then Twinbox drops the
  /// connection, and the call fails with `commit_in_doubt` if its commit was sent, else with
  /// `connection_lost`. A call that shares its commit waits as long, or for wait_timeout if that is
  /// longer, for the commit before. Schema changes and prune have no such limit. Zero: no limit.
  std::chrono::milliseconds answer_timeout = std::chrono::seconds{30};
  /// How long Twinbox repeats a writing call in its own transaction that finds no server, a server
  /// that takes no writes, or a connection that broke before its commit was sent: long enough for a
  /// switchover. Dispatchers, housekeeping and sources retry by themselves, without this.
  std::chrono::milliseconds retry_timeout = std::chrono::seconds{5};
  /// How often Twinbox repeats a call in its own transaction that met a deadlock, a serialization
  /// failure or a busy file. Zero: never. A call in your transaction and a commit in doubt are
  /// never repeated.
  int retries = 5;
};

/// Thread-safe. Boxes made on it refer to it, so it must outlive them.
class Database {
 public:
  /// `sqlite:<file>` (a path, not a URL: no `//`), `sqlite::memory:`,
  /// `postgresql://user@host/name?sslmode=verify-full` (any libpq URI or `key=value` string; behind
  /// PgBouncer with `twinbox_pooler=transaction` or `session`: an unnamed pooler is detected and
  /// treated as `transaction`, the slower mode), or `sqlserver://user@host:port/name?Encrypt=yes`
  /// (or an ODBC connection string). Connects on first use. Throws std::invalid_argument when the
  /// address cannot be parsed.
  explicit Database(std::string_view address, DatabaseOptions options = {},
                    Environment environment = {});
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs `work` in one transaction: commits when it returns, rolls back when it throws. Returns
  /// the result of `work`. Throws the exception of `work`, or DatabaseError. Calls `work` once and
  /// never repeats it.
  template <std::invocable<Session&> F>
  std::invoke_result_t<F&, Session&> in_transaction(F&& work) {
    using Result = std::invoke_result_t<F&, Session&>;
    static_assert(!std::is_reference_v<Result>,
                  "in_transaction: return a value, not a reference into the transaction");
    if constexpr (std::is_void_v<Result>) {
      run_in_transaction(std::ref(work));
    } else {
      std::optional<Result> result;
      run_in_transaction([&](Session& session) { result.emplace(work(session)); });
      return std::move(*result);
    }
  }

  [[nodiscard]] Dialect dialect() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const Environment& environment() const noexcept;

 private:
  friend Pool& pool_of(Database& database) noexcept;
  friend Database database_over(std::unique_ptr<Pool> pool);
  explicit Database(std::unique_ptr<Pool> pool);
  void run_in_transaction(const std::function<void(Session&)>& work);

  std::unique_ptr<Pool> pool_;
};

// A scope in which every blocking call can be cancelled.

/// While it lives, every call of this thread to a store ends with DatabaseError `cancelled` once a
/// stop is requested: a call that waits for a connection, a lock, a busy file or an answer ends,
/// and a new one does not begin. A commit that was sent is never interrupted. Other threads are not
/// affected, even where their calls share a transaction with this one. While a server is
/// unreachable, a call in a scope is not repeated for DatabaseOptions::retry_timeout unless the
/// scope asks for it.
class StopScope {
 public:
  /// What to do with a call that finds no server, or a server that takes no writes.
  enum class WhileAway {
    fail,    ///< soon: for loops, which retry by themselves
    repeat,  ///< as outside of a scope
  };

  explicit StopScope(std::stop_token stop, WhileAway away = WhileAway::fail) noexcept;
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// The token of the innermost scope; without a scope, a token that never stops.
  [[nodiscard]] static const std::stop_token& token() noexcept;
  /// The setting of the innermost scope; empty: no scope is active.
  [[nodiscard]] static std::optional<WhileAway> while_away() noexcept;

 private:
  const std::stop_token stop_;
  const WhileAway away_;
  const StopScope* const outer_;
};

}  // namespace twinbox
