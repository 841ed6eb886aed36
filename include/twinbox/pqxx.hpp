// A session in a libpqxx transaction. Header-only, so that the library itself does not need
// libpqxx: link your program with it. Supports libpqxx 6.4, 7 and 8; the README lists the tested
// versions.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <pqxx/pqxx>

#include "twinbox/detail/postgres_text_session.hpp"

namespace twinbox {

/// Your own transaction (`pqxx::work`, `pqxx::transaction<…>`, `pqxx::subtransaction`), borrowed:
/// it must outlive the session. A `pqxx::nontransaction` does not convert, since it is no
/// transaction. Errors are DatabaseError, not pqxx exceptions; after one, abort the transaction.
/// Use the isolation level `pqxx::read_committed`: the others see one snapshot only, so partition
/// keys and known messages are refused (invalid_request).
class PqxxSession final : public PostgresTextSession {
 public:
  explicit PqxxSession(pqxx::dbtransaction& transaction) : transaction_(transaction) {}

  /// Asks the server: libpqxx itself executes statements with parameters after the end of a
  /// transaction, where they would commit on their own.
  [[nodiscard]] bool in_transaction() const override {
    if (failed_ || !transaction_.conn().is_open()) return false;
    try {
      transaction_.exec("select 1");
      return true;
    } catch (const std::exception&) {  // the common base of all pqxx exceptions in every version
      return false;
    }
  }

 private:
  class Result final : public TextResult {
   public:
    explicit Result(pqxx::result result) : result_(std::move(result)) {}
    [[nodiscard]] std::size_t rows() const override {
      return static_cast<std::size_t>(result_.size());
    }
    [[nodiscard]] int columns() const override { return static_cast<int>(result_.columns()); }
    [[nodiscard]] std::size_t changed() const override {
      return static_cast<std::size_t>(result_.affected_rows());
    }
    [[nodiscard]] std::optional<std::string_view> cell(std::size_t row, int column) const override {
      const auto field = result_[static_cast<pqxx::result::size_type>(row)]
                                [static_cast<pqxx::row::size_type>(column)];
      if (field.is_null()) return {};
      return std::string_view{field.c_str(), field.size()};
    }

   private:
    pqxx::result result_;
  };

  std::unique_ptr<TextResult> run(const std::string& sql,
                                  std::span<const char* const> parameters) override {
    try {
      return std::make_unique<Result>(execute_with(sql, parameters));
    } catch (const pqxx::broken_connection& broken) {
      failed_ = true;
      throw wrong_values_or_lost(broken.what());
    } catch (const pqxx::in_doubt_error& in_doubt) {
      failed_ = true;
      throw error(DatabaseError::Kind::commit_in_doubt, in_doubt.what());
    } catch (const pqxx::sql_error& refused) {
      failed_ = true;
      if (refused.sqlstate() == "08P01") throw wrong_values_or_lost(refused.what());
      throw error(refused.sqlstate(), refused.what());
    } catch (const pqxx::usage_error& misused) {
      throw UsageError(std::string{"PqxxSession: the transaction cannot be used: "} +
                       misused.what());
    } catch (const pqxx::failure& failed) {
      failed_ = true;
      throw error(DatabaseError::Kind::other, failed.what());
    }
  }

  /// SQLSTATE 08P01, values that do not fit the statement, leaves the connection open; whatever
  /// else libpqxx calls a broken connection closes it, and so does a pooler that ends one with
  /// 08P01. Before 7.8 libpqxx throws broken_connection, without the code, for all of class 08.
  [[nodiscard]] DatabaseError wrong_values_or_lost(const char* message) const {
    return transaction_.conn().is_open() ? error("08P01", message)
                                         : error(DatabaseError::Kind::connection_lost, message);
  }

  // A range of parameters is deprecated since 7.6 and gone in 8, exec_params deprecated since 7.10.
#if defined(PQXX_VERSION_MAJOR) && PQXX_VERSION_MAJOR * 100 + PQXX_VERSION_MINOR < 706
  pqxx::result execute_with(const std::string& sql, std::span<const char* const> parameters) {
    return transaction_.exec_params(
        sql, pqxx::prepare::make_dynamic_params(parameters.begin(), parameters.end()));
  }
#else
  pqxx::result execute_with(const std::string& sql, std::span<const char* const> parameters) {
    pqxx::params values;
    values.reserve(parameters.size());
    for (const char* const value : parameters) {
      if (value == nullptr) {
        values.append();
      } else {
        values.append(std::string{value});
      }
    }
#if defined(PQXX_VERSION_MAJOR) && PQXX_VERSION_MAJOR * 100 + PQXX_VERSION_MINOR < 710
    return transaction_.exec_params(sql, values);
#else
    return transaction_.exec(sql, values);
#endif
  }
#endif

  pqxx::dbtransaction& transaction_;
  bool failed_ = false;
};

}  // namespace twinbox
