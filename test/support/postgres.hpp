// A second pair of hands on the test server: holds locks step by step, and sees who waits for them.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include <libpq-fe.h>

#include <twinbox/session.hpp>

namespace twinbox::test {

/// `address` with one more parameter, such as `application_name=x`.
std::string with_setting(const std::string& address, const std::string& setting);

/// A variable that ./dev test sets; throws when it is not there.
std::string test_setting(const char* name);

/// A connection of the test's own. Every call throws std::runtime_error with the server's words.
class PgClient {
 public:
  explicit PgClient(const std::string& address);

  void run(const std::string& sql);
  /// The first column of the first row as text; `null`, or `no row`.
  std::string value(const std::string& sql);
  /// SQLSTATE and message of a statement that fails; empty when it succeeds.
  std::string refusal(const std::string& sql);
  void begin() { run("begin"); }
  void commit() { run("commit"); }
  void rollback() { run("rollback"); }

  [[nodiscard]] LibpqSession& session() noexcept { return session_; }
  [[nodiscard]] int pid() const noexcept { return PQbackendPID(connection_.get()); }

 private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  LibpqSession session_;
};

/// A call on a thread of its own, for calls that have to wait for somebody.
template <class Result>
class Call {
 public:
  template <class F>
  explicit Call(F body) : result_(std::async(std::launch::async, std::move(body))) {}

  [[nodiscard]] bool finished() const {
    return result_.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
  }
  Result get() { return result_.get(); }

 private:
  std::future<Result> result_;
};
template <class F>
Call(F) -> Call<std::invoke_result_t<F>>;

inline bool a_session_waits_for(const PgClient& holder, PgClient& watcher) {
  return watcher.value("select count(*) > 0 from pg_stat_activity where " +
                       std::to_string(holder.pid()) + " = any(pg_blocking_pids(pid))") == "t";
}

/// True as soon as somebody waits for a lock that `holder` has; false when the call ends first.
template <class Result>
bool waits_for(const Call<Result>& call, const PgClient& holder, PgClient& watcher) {
  while (!call.finished()) {
    if (a_session_waits_for(holder, watcher)) return true;
  }
  return false;
}

}  // namespace twinbox::test
