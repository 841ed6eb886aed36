// All exceptions. Ordinary answers (a duplicate, a lost lease, an empty claim) are return values. A
// wrong argument is std::invalid_argument or std::out_of_range.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace twinbox {

/// The database refused the call or could not be reached. Decide by kind() and retryable(), not by
/// native_code().
class DatabaseError : public std::runtime_error {
 public:
  enum class Kind {
    connection_lost,  ///< could not connect, or the connection broke; nothing was committed
    contention,       ///< deadlock, serialization failure or busy file; nothing was committed
    commit_in_doubt,  ///< the answer to a commit was lost: it may or may not have happened
    out_of_space,     ///< disk full or quota reached
    read_only,        ///< a file without the right to write, or a server that is a standby
    not_synchronous,  ///< the commit would wait for no standby (BoxOptions::require_synchronous)
    corrupt,          ///< the file is damaged or is no database
    permission,       ///< the role lacks a right, or the login was refused
    missing_schema,   ///< a required table or function is missing
    cancelled,        ///< interrupted by a stop request or a statement timeout
    invalid_request,  ///< the statement or its data were refused; retrying changes nothing
    other,
  };

  DatabaseError(Kind kind, const std::string& message, std::string native_code = {})
      : std::runtime_error(message), kind_(kind), native_code_(std::move(native_code)) {}

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  /// SQLSTATE or the client library's number; for logs only.
  [[nodiscard]] const std::string& native_code() const noexcept { return native_code_; }
  /// True when the call can simply be repeated: nothing of it was committed.
  [[nodiscard]] bool retryable() const noexcept {
    return kind_ == Kind::connection_lost || kind_ == Kind::contention ||
           kind_ == Kind::read_only || kind_ == Kind::not_synchronous;
  }

 private:
  Kind kind_;
  std::string native_code_;
};

/// The name of a kind as logs and messages show it.
std::string_view to_string(DatabaseError::Kind kind) noexcept;

/// The tables are missing, too old or too new for this program. The message says which, and what to
/// do.
class SchemaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The program used the library in a way that cannot work, such as a session without a transaction.
class UsageError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The exception's text, never null. Borrowed from the exception.
inline std::string_view text_of(const std::exception& error) noexcept {
  const char* text = error.what();
  return text != nullptr ? text : "an exception without a text (its what() is null)";
}

}  // namespace twinbox
