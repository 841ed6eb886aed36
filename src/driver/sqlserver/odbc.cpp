#include "driver/sqlserver/odbc.hpp"

#include <array>
#include <new>

#include "core/text.hpp"

namespace twinbox::sqlserver {
namespace {

/// "The statement has been terminated", which follows the error with the reason.
constexpr SQLINTEGER statement_terminated = 3621;

/// `[FreeTDS][SQL Server]Invalid object name …` becomes `Invalid object name …`.
std::string without_origin(std::string message) {
  std::size_t begin = 0;
  while (begin < message.size() && message[begin] == '[') {
    const auto end = message.find(']', begin);
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  message.erase(0, begin);
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return message;
}

}  // namespace

EnvironmentHandle new_environment() {
  SQLHENV handle = SQL_NULL_HENV;
  if (!succeeded(SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &handle))) throw std::bad_alloc{};
  EnvironmentHandle environment{handle};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ODBC passes numbers as pointers
  SQLSetEnvAttr(handle, SQL_ATTR_ODBC_VERSION, reinterpret_cast<SQLPOINTER>(SQL_OV_ODBC3), 0);
  return environment;
}

ConnectionHandle new_connection(SQLHENV environment) {
  SQLHDBC handle = SQL_NULL_HDBC;
  if (!succeeded(SQLAllocHandle(SQL_HANDLE_DBC, environment, &handle))) throw std::bad_alloc{};
  return ConnectionHandle{handle};
}

StatementHandle new_statement(SQLHDBC connection, std::string_view action, std::string_view where) {
  SQLHSTMT handle = SQL_NULL_HSTMT;
  if (succeeded(SQLAllocHandle(SQL_HANDLE_STMT, connection, &handle))) {
    return StatementHandle{handle};
  }
  throw failure(action, server_error_of(SQL_HANDLE_DBC, connection), where, true);
}

ServerError server_error_of(SQLSMALLINT type, SQLHANDLE handle) {
  ServerError first;
  for (SQLSMALLINT record = 1;; ++record) {
    std::u16string state(6, u'\0');
    std::u16string message(SQL_MAX_MESSAGE_LENGTH, u'\0');
    SQLINTEGER native = 0;
    SQLSMALLINT length = 0;
    const auto code = SQLGetDiagRecW(type, handle, record, wide(state), &native, wide(message),
                                     static_cast<SQLSMALLINT>(message.size()), &length);
    if (!succeeded(code)) return first;
    message.resize(message.find(u'\0'));
    ServerError server_error{.sqlstate = {}, .native = native, .message = {}};
    append_utf8(server_error.sqlstate, std::u16string_view{state}.substr(0, 5));
    append_utf8(server_error.message, message);
    server_error.message = without_origin(std::move(server_error.message));
    const bool remark = server_error.sqlstate.starts_with("01") || native == statement_terminated;
    if (!remark) return server_error;
    if (record == 1) first = std::move(server_error);
  }
}

std::u16string to_utf16(std::string_view text) {
  std::u16string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (const auto byte = static_cast<unsigned char>(text[at]); byte < 0x80) {
      result += static_cast<char16_t>(byte);
      ++at;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    at += point.length;
    if (point.value < 0x10000) {
      result += static_cast<char16_t>(point.value);
    } else {
      const char32_t rest = point.value - 0x10000;
      result += static_cast<char16_t>(0xd800U + (rest >> 10U));
      result += static_cast<char16_t>(0xdc00U + (rest & 0x3ffU));
    }
  }
  return result;
}

void append_utf8(std::string& out, std::u16string_view text) {
  constexpr char32_t replacement = 0xfffd;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char16_t unit = text[at];
    if (unit < 0x80) {
      out += static_cast<char>(unit);
    } else if (unit < 0xd800 || unit > 0xdfff) {
      twinbox::append_utf8(out, unit);
    } else if (unit < 0xdc00 && at + 1 < text.size() && text[at + 1] >= 0xdc00 &&
               text[at + 1] <= 0xdfff) {
      const char32_t high = unit - 0xd800U;
      const char32_t low = text[++at] - 0xdc00U;
      twinbox::append_utf8(out, 0x10000U + (high << 10U) + low);
    } else {
      twinbox::append_utf8(out, replacement);
    }
  }
}

}  // namespace twinbox::sqlserver
