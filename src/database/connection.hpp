// The interface of a driver: a connection of our own, and how to open one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "database/watch.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

struct BoxName;

/// The access that a call of our own needs.
enum class Access {
  read,           ///< reads only; may be repeated freely
  write,          ///< durable once it returns
  write_relaxed,  ///< a claim: may be undone by a power cut that also ends this process (SQLite)
};

/// The transaction of a call of our own.
enum class Scope {
  statement,    ///< exactly one Statement: PostgreSQL sends no begin and commit of its own for it
  transaction,  ///< several statements, ours only
  caller,  ///< several statements, the caller's among them: our statements must not set the planner
};

/// A connection of our own. After an exception in a transaction, only rollback() may follow.
class Connection : public Session {
 public:
  /// Starts the work of one call. May be lazy: the first statement then carries the begin with it.
  virtual void begin(Access access, Scope scope) = 0;
  /// Throws DatabaseError; kind commit_in_doubt when the answer was lost.
  virtual void commit() = 0;
  virtual void rollback() noexcept = 0;
  /// False once the connection is broken: the pool throws it away.
  [[nodiscard]] virtual bool usable() const noexcept = 0;
  /// Identifies this copy of the data and its history: the text changes with a failover, after
  /// which numbers may be issued again. Empty: not known.
  [[nodiscard]] virtual std::string_view server_identity() const noexcept { return {}; }
  /// Ends the statements before the next commit() or rollback() with kind `cancelled`, soon; those
  /// two themselves are not affected. Does not wait. The only call allowed from another thread.
  virtual void interrupt() noexcept = 0;

  [[nodiscard]] std::string_view database() const noexcept final { return database_; }
  /// Set by the pool, which owns the text.
  void belongs_to(std::string_view database) noexcept { database_ = database; }

 private:
  std::string_view database_;
};

/// Opens connections to one database.
class Driver {
 public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual Dialect dialect() const noexcept = 0;
  /// How many connections may write at once, how many may read: 1 and n for a SQLite file, n and n
  /// for a server. `shared` says that reads use the writing connection too (SQLite in memory).
  /// `groups_writes` says that one transaction for several of our own calls is better than one for
  /// each, because only one can write at a time and a commit takes long (a SQLite file).
  struct Shape {
    std::size_t writers;
    std::size_t readers;
    bool shared;
    bool groups_writes = false;
  };
  [[nodiscard]] virtual Shape shape(std::size_t pool_size) const noexcept = 0;
  /// Throws DatabaseError with a message that names the database without its password.
  virtual std::unique_ptr<Connection> connect(Access access) = 0;
  /// For logs and errors: where the database is, without a password.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// The identity by which connections are counted and databases compared; never a password.
  struct Location {
    std::string server = {};    ///< `host:port`, or `files`; empty: it shares nothing
    std::string database = {};  ///< its name there; empty: one of its own for each driver
  };
  [[nodiscard]] virtual Location location() const { return {}; }
  /// Opens a watch for commits by others to this box. Empty where notifications do not exist
  /// (SQLite in memory, a pooler in transaction mode): poll instead.
  [[nodiscard]] virtual OpenWatch watch(const BoxName& /*box*/) const { return {}; }
  /// The same without a connection: it may report more than commits. Empty where a watch needs a
  /// connection.
  [[nodiscard]] virtual OpenWatch watch_without_connection() const { return {}; }
};

}  // namespace twinbox
