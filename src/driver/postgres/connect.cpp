#include "driver/postgres/connect.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <poll.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/postgres/failure.hpp"
#include "driver/postgres/text_format.hpp"

namespace twinbox::postgres {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds stop_check{50};

/// libpq gives no SQLSTATE for a refused login, but its verbose text holds one: `FATAL:  28P01: …`,
/// whatever the language of the words around it.
std::string sqlstate_in(std::string_view message) {
  for (auto at = message.find(":  "); at != std::string_view::npos;
       at = message.find(":  ", at + 1)) {
    const auto code = message.substr(at + 3, 5);
    const bool is_code =
        code.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
    if (code.size() == 5 && is_code && message.substr(at + 8, 1) == ":") return std::string{code};
  }
  return {};
}

/// One address may stand for several hosts, each with a line of its own; the server adds where in
/// its source the error arose, which helps nobody here.
std::string in_one_line(std::string_view message) {
  std::string result;
  while (!message.empty()) {
    const auto end = message.find('\n');
    const auto line = first_line(message.substr(0, end));
    message = end == std::string_view::npos ? std::string_view{} : message.substr(end + 1);
    if (line.empty() || line.starts_with("LOCATION:")) continue;
    if (!result.empty()) result += "; ";
    result += line;
  }
  return result;
}

/// The settings as libpq takes them.
struct Pairs {
  explicit Pairs(const Address& address) {
    for (const auto& [key, value] : address.settings) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    keys.push_back(nullptr);
    values.push_back(nullptr);
  }

  std::vector<const char*> keys;
  std::vector<const char*> values;
};

std::string setting(const Address& address, const char* key) {
  const auto found = address.settings.find(key);
  return found == address.settings.end() ? std::string{} : found->second;
}

bool has_several_hosts(const Address& address) {
  return setting(address, "host").find(',') != std::string::npos ||
         setting(address, "hostaddr").find(',') != std::string::npos;
}

void drop_notice(void* /*nothing*/, const PGresult* /*notice*/) noexcept {}

[[noreturn]] void refuse(const Address& address, PGconn* connection) {
  const std::string_view message = PQerrorMessage(connection);
  const Report report{sqlstate_in(message), in_one_line(message)};
  throw failure("connect", report, address.shown, true);
}

void check_stop(const Address& address, const std::stop_token& stop) {
  if (!stop.stop_requested()) return;
  throw failure(DatabaseError::Kind::cancelled, "connect", {"", "stopped on request"},
                address.shown, true);
}

/// Step by step, so that the verbose form of the server's refusal can be asked for.
Handle connect_to_one(const Address& address, const std::stop_token& stop) {
  const Pairs pairs{address};
  Handle handle{PQconnectStartParams(pairs.keys.data(), pairs.values.data(), 0)};
  if (handle == nullptr) throw std::bad_alloc{};
  PQsetNoticeReceiver(handle.get(), &drop_notice, nullptr);
  PQsetErrorVerbosity(handle.get(), PQERRORS_VERBOSE);
  const auto limit = read_integer(setting(address, "connect_timeout")).value_or(0);
  const auto deadline = Clock::now() + std::chrono::seconds{limit};
  auto state =
      PQstatus(handle.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) refuse(address, handle.get());
    check_stop(address, stop);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (limit > 0 && left <= 0) {
      throw failure("connect",
                    {"", "no answer within connect_timeout=" + setting(address, "connect_timeout") +
                             " s: check host and port, or raise connect_timeout in the address"},
                    address.shown, true);
    }
    const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    pollfd socket{PQsocket(handle.get()), events, 0};
    auto wait = limit > 0 ? left : -1;
    if (stop.stop_possible())
      wait = limit > 0 ? std::min(left, stop_check.count()) : stop_check.count();
    const int ready = ::poll(&socket, 1, static_cast<int>(wait));
    if (ready > 0 || (ready < 0 && errno != EINTR)) state = PQconnectPoll(handle.get());
  }
  PQsetErrorVerbosity(handle.get(), PQERRORS_DEFAULT);
  return handle;
}

/// Only libpq itself can give each host its own share of time.
Handle connect_to_one_of_several(const Address& address) {
  const Pairs pairs{address};
  Handle handle{PQconnectdbParams(pairs.keys.data(), pairs.values.data(), 0)};
  if (handle == nullptr) throw std::bad_alloc{};
  if (PQstatus(handle.get()) != CONNECTION_OK) refuse(address, handle.get());
  return handle;
}

/// Waits for what has been asked, but neither past its limit nor past a stop request.
void await_answer(PGconn* connection, const Question& question, const std::stop_token& stop) {
  const auto deadline = Clock::now() + question.limit;
  while (PQisBusy(connection) == 1) {
    if (stop.stop_requested()) {
      throw failure(DatabaseError::Kind::cancelled, question.act, {"", "stopped on request"},
                    question.where, true);
    }
    if (question.limit.count() > 0 && Clock::now() >= deadline) {
      throw failure(DatabaseError::Kind::connection_lost, question.act,
                    {"", "the server does not answer"}, question.where, true);
    }
    pollfd socket{PQsocket(connection), POLLIN, 0};
    if (::poll(&socket, 1, static_cast<int>(stop_check.count())) > 0 &&
        PQconsumeInput(connection) != 1)
      return;
  }
}

}  // namespace

Result ask(PGconn* connection, const Question& question, const std::stop_token& stop) {
  if (PQsendQuery(connection, question.sql.c_str()) != 1) {
    throw failure(DatabaseError::Kind::connection_lost, question.act,
                  {"", first_line(PQerrorMessage(connection))}, question.where, true);
  }
  Result last;
  for (;;) {
    await_answer(connection, question, stop);
    Result next{PQgetResult(connection)};
    if (next == nullptr) return last;
    const auto status = PQresultStatus(next.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
      throw failure(question.act, report_of(next.get()), question.where, true);
    }
    last = std::move(next);
  }
}

bool is_behind_a_pooler(PGconn* connection, std::string_view act, std::string_view where,
                        std::chrono::seconds limit, const std::stop_token& stop) {
  const Result answer = ask(connection, {"select pg_backend_pid()", act, where, limit}, stop);
  return read_integer(PQgetvalue(answer.get(), 0, 0)) != PQbackendPID(connection);
}

Handle connect_to(const Address& address, const std::stop_token& stop) {
  check_stop(address, stop);
  return has_several_hosts(address) ? connect_to_one_of_several(address)
                                    : connect_to_one(address, stop);
}

}  // namespace twinbox::postgres
