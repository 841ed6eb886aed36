// ODBC handles with owners, and their diagnostics.
#pragma once

#include <memory>
#include <sql.h>
#include <sqlext.h>
#include <string>
#include <string_view>

#include "driver/sqlserver/failure.hpp"

namespace twinbox::sqlserver {

template <SQLSMALLINT type>
struct FreeHandle {
  void operator()(void* handle) const noexcept { SQLFreeHandle(type, handle); }
};
using EnvironmentHandle = std::unique_ptr<void, FreeHandle<SQL_HANDLE_ENV>>;
struct Disconnect {
  void operator()(void* handle) const noexcept {
    SQLDisconnect(handle);
    SQLFreeHandle(SQL_HANDLE_DBC, handle);
  }
};
using ConnectionHandle = std::unique_ptr<void, Disconnect>;
using StatementHandle = std::unique_ptr<void, FreeHandle<SQL_HANDLE_STMT>>;

EnvironmentHandle new_environment();
ConnectionHandle new_connection(SQLHENV environment);
/// Throws DatabaseError.
StatementHandle new_statement(SQLHDBC connection, std::string_view action, std::string_view where);

/// The first diagnostic of `handle` that is more than a remark.
ServerError server_error_of(SQLSMALLINT type, SQLHANDLE handle);

inline bool succeeded(SQLRETURN code) noexcept {
  return code == SQL_SUCCESS || code == SQL_SUCCESS_WITH_INFO;
}

/// UTF-16, as ODBC takes it. A piece that is not UTF-8 becomes U+FFFD.
std::u16string to_utf16(std::string_view text);
/// A surrogate without its other half becomes U+FFFD.
void append_utf8(std::string& out, std::u16string_view text);

inline SQLWCHAR* wide(std::u16string& text) noexcept {
  static_assert(sizeof(SQLWCHAR) == sizeof(char16_t));
  return reinterpret_cast<SQLWCHAR*>(text.data());
}

}  // namespace twinbox::sqlserver
