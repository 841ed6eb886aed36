#include "support/postgres.hpp"

#include <cstdlib>
#include <stdexcept>

namespace twinbox::test {
namespace {

using Answer = std::unique_ptr<PGresult, decltype(&PQclear)>;

bool succeeded(const Answer& answer) {
  const auto status = PQresultStatus(answer.get());
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

}  // namespace

std::string with_setting(const std::string& address, const std::string& setting) {
  return address + (address.find('?') == std::string::npos ? "?" : "&") + setting;
}

std::string test_setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw std::runtime_error(std::string{name} + " is not set: run the tests by ./dev test");
  }
  return value;
}

PgClient::PgClient(const std::string& address)
    : connection_(PQconnectdb(address.c_str()), &PQfinish), session_(connection_.get()) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  PQsetNoticeReceiver(
      connection_.get(), [](void*, const PGresult*) {}, nullptr);
}

void PgClient::run(const std::string& sql) {
  const Answer answer{PQexec(connection_.get(), sql.c_str()), &PQclear};
  if (!succeeded(answer)) throw std::runtime_error(PQerrorMessage(connection_.get()));
}

std::string PgClient::value(const std::string& sql) {
  const Answer answer{PQexec(connection_.get(), sql.c_str()), &PQclear};
  if (!succeeded(answer)) throw std::runtime_error(PQerrorMessage(connection_.get()));
  if (PQntuples(answer.get()) == 0) return "no row";
  if (PQgetisnull(answer.get(), 0, 0) != 0) return "null";
  return PQgetvalue(answer.get(), 0, 0);
}

std::string PgClient::refusal(const std::string& sql) {
  const Answer answer{PQexec(connection_.get(), sql.c_str()), &PQclear};
  if (succeeded(answer)) return {};
  const char* code = PQresultErrorField(answer.get(), PG_DIAG_SQLSTATE);
  const char* words = PQresultErrorField(answer.get(), PG_DIAG_MESSAGE_PRIMARY);
  return std::string{code == nullptr ? "" : code} + " " + (words == nullptr ? "" : words);
}

}  // namespace twinbox::test
