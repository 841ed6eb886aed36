#include "driver/postgres/connect.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
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

/// libpq gives no SQLSTATE for a refused login, but its verbose text contains one: `FATAL:  28P01:
/// …`, in any language.
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

/// One address may stand for several hosts, each with its own line; the server adds the place in
/// its source where the error arose, which is of no use here.
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

/// The settings in libpq's form.
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

/// In seconds, as libpq took it: from the address, the environment or a service file. 0: none.
std::int64_t connect_timeout_of(PGconn* connection) {
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> used{PQconninfo(connection),
                                                                          &PQconninfoFree};
  for (const auto* one = used.get(); one != nullptr && one->keyword != nullptr; ++one) {
    if (std::string_view{one->keyword} == "connect_timeout" && one->val != nullptr)
      return std::max<std::int64_t>(0, read_integer(one->val).value_or(0));
  }
  return 0;
}

/// A list in libpq's form: `a,b,c`; an empty element stands for libpq's own default.
std::vector<std::string> elements(const std::string& list) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto end = std::min(list.find(',', begin), list.size());
    result.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

/// One address for each host. Empty: there is only one, or the lists do not match, for which libpq
/// has the better message.
std::vector<Address> each_host(const Address& address) {
  std::size_t count = 1;
  for (const char* key : {"host", "hostaddr"})
    count = std::max(count, elements(setting(address, key)).size());
  if (count == 1) return {};
  std::vector<Address> hosts(count, address);
  for (const char* key : {"host", "hostaddr", "port"}) {
    const auto values = elements(setting(address, key));
    if (!address.settings.contains(key)) continue;
    if (values.size() != count && values.size() != 1) return {};
    for (std::size_t i = 0; i < count; ++i)
      hosts[i].settings[key] = values.size() == 1 ? values[0] : values[i];
  }
  return hosts;
}

void drop_notice(void* /*nothing*/, const PGresult* /*notice*/) noexcept {}

[[noreturn]] void refuse(const Address& address, PGconn* connection) {
  const std::string_view message = PQerrorMessage(connection);
  const ServerError server_error{sqlstate_in(message), in_one_line(message)};
  throw failure("connect", server_error, address.shown, true);
}

void check_stop(const Address& address, const std::stop_token& stop) {
  if (!stop.stop_requested()) return;
  throw failure(DatabaseError::Kind::cancelled, "connect", {"", "stopped on request"},
                address.shown, true);
}

/// Step by step, so that the verbose form of the server's refusal can be asked for.
Handle connect_to_one(const Address& address, std::chrono::milliseconds limit,
                      const std::stop_token& stop) {
  const Pairs pairs{address};
  Handle handle{PQconnectStartParams(pairs.keys.data(), pairs.values.data(), 0)};
  if (handle == nullptr) throw std::bad_alloc{};
  PQsetNoticeReceiver(handle.get(), &drop_notice, nullptr);
  PQsetErrorVerbosity(handle.get(), PQERRORS_VERBOSE);
  const auto seconds = connect_timeout_of(handle.get());
  const bool own_limit =
      seconds > 0 && (limit.count() == 0 || std::chrono::seconds{seconds} <= limit);
  if (own_limit) limit = std::chrono::seconds{seconds};
  const auto deadline = Clock::now() + limit;
  auto state =
      PQstatus(handle.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) refuse(address, handle.get());
    check_stop(address, stop);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (limit.count() > 0 && left <= 0) {
      throw failure("connect",
                    {"", own_limit ? "no answer within connect_timeout=" + std::to_string(seconds) +
                                         " s: check host and port, or raise connect_timeout in the "
                                         "address (or PGCONNECT_TIMEOUT, or in the service file)"
                                   : no_answer_within(limit)},
                    address.shown, true);
    }
    const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    pollfd socket{PQsocket(handle.get()), events, 0};
    auto wait = limit.count() > 0 ? left : -1;
    if (stop.stop_possible())
      wait = limit.count() > 0 ? std::min(left, stop_check.count()) : stop_check.count();
    const int ready = ::poll(&socket, 1, static_cast<int>(wait));
    if (ready > 0 || (ready < 0 && errno != EINTR)) state = PQconnectPoll(handle.get());
  }
  PQsetErrorVerbosity(handle.get(), PQERRORS_DEFAULT);
  return handle;
}

/// One for each address of its host name. libpq keeps the name: TLS and the password file need it.
std::vector<Address> each_address(const Address& host) {
  if (!setting(host, "hostaddr").empty()) return {host};
  std::vector<Address> result;
  for (std::string& found : host.addresses_of(setting(host, "host"))) {
    result.push_back(host);
    result.back().settings["hostaddr"] = std::move(found);
  }
  if (result.empty()) result.push_back(host);
  return result;
}

/// Not by libpq's own list: only its blocking call skips an address that does not answer. After any
/// error except a refused login the next address may work.
Handle connect_to_one_of(std::vector<Address> hosts, const Address& address,
                         std::chrono::milliseconds limit, const std::stop_token& stop) {
  const bool prefers = setting(address, "target_session_attrs") == "prefer-standby";
  const bool one_name = elements(setting(address, "host")).size() == 1;
  const std::size_t first = *address.host_that_worked % hosts.size();
  std::string reasons;
  for (const bool standby : {prefers, false}) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const std::size_t at = (first + i) % hosts.size();
      Address& host = hosts[at];
      if (prefers) host.settings["target_session_attrs"] = standby ? "standby" : "any";
      try {
        Handle handle = connect_to_one(host, limit, stop);
        *address.host_that_worked = at;
        return handle;
      } catch (const DatabaseError& error) {
        const auto kind = error.kind();
        if (kind == DatabaseError::Kind::permission || kind == DatabaseError::Kind::cancelled)
          throw;
        const std::string where = setting(host, one_name ? "hostaddr" : "host");
        reasons += (reasons.empty() ? "" : "; ") + where + ": " + error.what();
      }
    }
    if (!prefers) break;
  }
  throw failure(DatabaseError::Kind::connection_lost, "connect", {"", reasons}, address.shown,
                true);
}

/// Waits for the answer, but neither past its limit nor past a stop request.
void await_answer(PGconn* connection, const Query& query, const std::stop_token& stop) {
  const auto deadline = Clock::now() + query.limit;
  while (PQisBusy(connection) == 1) {
    if (stop.stop_requested()) {
      throw failure(DatabaseError::Kind::cancelled, query.action, {"", "stopped on request"},
                    query.where, true);
    }
    if (query.limit.count() > 0 && Clock::now() >= deadline) {
      throw failure(DatabaseError::Kind::connection_lost, query.action,
                    {"", no_answer_within(query.limit)}, query.where, true);
    }
    pollfd socket{PQsocket(connection), POLLIN, 0};
    if (::poll(&socket, 1, static_cast<int>(stop_check.count())) > 0 &&
        PQconsumeInput(connection) != 1)
      return;
  }
}

}  // namespace

Result run_query(PGconn* connection, const Query& query, const std::stop_token& stop) {
  if (PQsendQuery(connection, query.sql.c_str()) != 1) {
    throw failure(DatabaseError::Kind::connection_lost, query.action,
                  {"", first_line(PQerrorMessage(connection))}, query.where, true);
  }
  Result last;
  std::optional<DatabaseError> refused;
  for (;;) {
    await_answer(connection, query, stop);
    Result next{PQgetResult(connection)};
    if (next == nullptr) break;
    const auto status = PQresultStatus(next.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && !refused)
      refused = failure(query.action, server_error_of(next.get()), query.where, true);
    last = std::move(next);
  }
  if (refused) throw *refused;
  return last;
}

bool is_behind_a_pooler(PGconn* connection, std::string_view action, std::string_view where,
                        std::chrono::milliseconds limit, const std::stop_token& stop) {
  const Result answer =
      run_query(connection, {"select pg_backend_pid()", action, where, limit}, stop);
  return read_integer(PQgetvalue(answer.get(), 0, 0)) != PQbackendPID(connection);
}

std::string no_answer_within(std::chrono::milliseconds limit) {
  return "the server did not answer within answer_timeout (" + std::to_string(limit.count()) +
         " ms): check that it runs and is not overloaded, or raise answer_timeout";
}

Handle connect_to(const Address& address, std::chrono::milliseconds limit,
                  const std::stop_token& stop) {
  check_stop(address, stop);
  std::vector<Address> hosts = each_host(address);
  if (hosts.empty()) hosts.push_back(address);
  std::vector<Address> addresses;
  for (const Address& host : hosts) {
    for (Address& one : each_address(host)) addresses.push_back(std::move(one));
  }
  return addresses.size() == 1 ? connect_to_one(addresses.front(), limit, stop)
                               : connect_to_one_of(std::move(addresses), address, limit, stop);
}

}  // namespace twinbox::postgres
