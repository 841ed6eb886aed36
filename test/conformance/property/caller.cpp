#include "conformance/property/caller.hpp"

#include <stdexcept>

#include <libpq-fe.h>
#include <sqlite3.h>

#include <twinbox/pqxx.hpp>
#include <twinbox/session.hpp>

namespace twinbox::test {
namespace {

/// Begins and ends transactions with words of SQL, and makes sure that nobody else has.
class ByWords : public Caller {
 public:
  void run(bool kept, const std::function<void(Session&)>& work) final {
    execute(begin());
    try {
      work(session());
      if (!session().in_transaction()) throw std::runtime_error("the transaction was ended");
    } catch (...) {
      execute("rollback");
      throw;
    }
    execute(kept ? "commit" : "rollback");
  }

 protected:
  [[nodiscard]] virtual const char* begin() const { return "begin"; }
  virtual void execute(const char* sql) = 0;
  virtual Session& session() = 0;
};

class SqliteCaller final : public ByWords {
 public:
  explicit SqliteCaller(const std::string& file)
      : handle_(open(file), sqlite3_close), session_(handle_.get()) {}

 private:
  static sqlite3* open(const std::string& file) {
    sqlite3* handle = nullptr;
    if (sqlite3_open(file.c_str(), &handle) != SQLITE_OK)
      throw std::runtime_error("cannot open " + file);
    return handle;
  }
  [[nodiscard]] const char* begin() const override { return "begin immediate"; }
  void execute(const char* sql) override {
    if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
      throw std::runtime_error(std::string{sql} + ": " + sqlite3_errmsg(handle_.get()));
  }
  Session& session() override { return session_; }

  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> handle_;
  SqliteSession session_;
};

class LibpqCaller final : public ByWords {
 public:
  explicit LibpqCaller(const std::string& address)
      : handle_(PQconnectdb(address.c_str()), PQfinish), session_(handle_.get()) {
    execute("select 1");
  }

 private:
  void execute(const char* sql) override {
    PGresult* result = PQexec(handle_.get(), sql);
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
      throw std::runtime_error(std::string{sql} + ": " + PQerrorMessage(handle_.get()));
  }
  Session& session() override { return session_; }

  std::unique_ptr<PGconn, decltype(&PQfinish)> handle_;
  LibpqSession session_;
};

class PqxxCaller final : public Caller {
 public:
  explicit PqxxCaller(const std::string& address) : connection_(address) {}

  void run(bool kept, const std::function<void(Session&)>& work) override {
    pqxx::work transaction(connection_);
    PqxxSession session(transaction);
    work(session);
    if (kept) transaction.commit();
  }

 private:
  pqxx::connection connection_;
};

}  // namespace

std::vector<std::unique_ptr<Caller>> callers_of(Backend backend, const TestStore& test_store) {
  std::vector<std::unique_ptr<Caller>> callers;
  if (backend == Backend::sqlite_file)
    callers.push_back(std::make_unique<SqliteCaller>(test_store.file()));
  if (backend == Backend::postgres) {
    callers.push_back(std::make_unique<LibpqCaller>(test_store.address()));
    callers.push_back(std::make_unique<PqxxCaller>(test_store.address()));
  }
  return callers;
}

}  // namespace twinbox::test
