// An ODBC connection that is not Twinbox's.
#pragma once

#include <sql.h>
#include <sqlext.h>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace twinbox::test {

/// A connection of the caller's own.
class OdbcHandle {
 public:
  explicit OdbcHandle(std::string address) {
    SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &environment_);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): ODBC passes numbers as pointers
    SQLSetEnvAttr(environment_, SQL_ATTR_ODBC_VERSION, reinterpret_cast<SQLPOINTER>(SQL_OV_ODBC3),
                  0);
    SQLAllocHandle(SQL_HANDLE_DBC, environment_, &connection_);
    const auto code =
        SQLDriverConnect(connection_, nullptr, reinterpret_cast<SQLCHAR*>(address.data()), SQL_NTS,
                         nullptr, 0, nullptr, SQL_DRIVER_NOPROMPT);
    if (!SQL_SUCCEEDED(code)) throw std::runtime_error("cannot connect by ODBC");
  }
  ~OdbcHandle() {
    SQLEndTran(SQL_HANDLE_DBC, connection_, SQL_ROLLBACK);
    SQLDisconnect(connection_);
    SQLFreeHandle(SQL_HANDLE_DBC, connection_);
    SQLFreeHandle(SQL_HANDLE_ENV, environment_);
  }
  OdbcHandle(const OdbcHandle&) = delete;
  OdbcHandle& operator=(const OdbcHandle&) = delete;

  [[nodiscard]] SQLHDBC get() const noexcept { return connection_; }

  void run(std::string sql) {
    SQLHSTMT statement = SQL_NULL_HSTMT;
    SQLAllocHandle(SQL_HANDLE_STMT, connection_, &statement);
    auto code = SQLExecDirect(statement, reinterpret_cast<SQLCHAR*>(sql.data()), SQL_NTS);
    while (SQL_SUCCEEDED(code)) code = SQLMoreResults(statement);
    EXPECT_EQ(code, SQL_NO_DATA) << sql;
    SQLFreeHandle(SQL_HANDLE_STMT, statement);
  }
  void autocommit(bool on) {
    const SQLULEN value = on ? SQL_AUTOCOMMIT_ON : SQL_AUTOCOMMIT_OFF;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    SQLSetConnectAttr(connection_, SQL_ATTR_AUTOCOMMIT, reinterpret_cast<SQLPOINTER>(value), 0);
  }
  void end(SQLSMALLINT how) {
    EXPECT_EQ(SQLEndTran(SQL_HANDLE_DBC, connection_, how), SQL_SUCCESS);
  }

 private:
  SQLHENV environment_ = SQL_NULL_HENV;
  SQLHDBC connection_ = SQL_NULL_HDBC;
};

}  // namespace twinbox::test
