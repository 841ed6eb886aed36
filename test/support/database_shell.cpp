#include "support/database_shell.hpp"

#include <memory>
#include <sstream>

#include <libpq-fe.h>
#include <sqlite3.h>

#if TWINBOX_SQLSERVER
#include "support/sqlserver_handle.hpp"
#endif

namespace twinbox::test {
namespace {

void run_by_sqlite3(const std::string& file, const std::string& script) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> owner{handle, sqlite3_close};
  ASSERT_EQ(sqlite3_exec(handle, script.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
}

void run_by_psql(const std::string& address, const std::string& script) {
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection{PQconnectdb(address.c_str()),
                                                                PQfinish};
  const std::unique_ptr<PGresult, decltype(&PQclear)> result{
      PQexec(connection.get(), ("set client_min_messages = warning;" + script).c_str()), PQclear};
  ASSERT_EQ(PQresultStatus(result.get()), PGRES_COMMAND_OK) << PQerrorMessage(connection.get());
}

#if TWINBOX_SQLSERVER
void run_by_sqlcmd(const std::string& address, const std::string& script) {
  OdbcHandle connection{address};
  // As sqlcmd has it unless it is told otherwise.
  connection.run("set quoted_identifier off");
  std::istringstream lines{script};
  std::string batch;
  for (std::string line; std::getline(lines, line);) {
    if (line != "go") {
      batch += line + "\n";
      continue;
    }
    connection.run(batch);
    if (::testing::Test::HasFailure()) return;
    batch.clear();
  }
  EXPECT_EQ(batch, "") << "what comes after the last go is not run";
}
#endif

}  // namespace

void run_by_hand(Backend backend, const TestStore& test_store, const std::string& script) {
  switch (backend) {
    case Backend::sqlite_file: return run_by_sqlite3(test_store.file(), script);
    case Backend::sqlite_memory: throw std::logic_error("nobody else can open it");
    case Backend::postgres: return run_by_psql(test_store.address(), script);
    case Backend::sqlserver:
#if TWINBOX_SQLSERVER
      return run_by_sqlcmd(test_store.address(), script);
#else
      throw std::logic_error("built without SQL Server");
#endif
  }
}

}  // namespace twinbox::test
