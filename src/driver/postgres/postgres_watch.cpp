#include "driver/postgres/postgres_watch.hpp"

#include <chrono>
#include <utility>

#include <libpq-fe.h>

#include "driver/postgres/connect.hpp"
#include "driver/postgres/failure.hpp"
#include "driver/postgres/result.hpp"
#include "driver/postgres/text_format.hpp"

namespace twinbox::postgres {
namespace {

using Kind = DatabaseError::Kind;

constexpr std::int64_t longest_connect = 5;  // seconds
constexpr std::chrono::seconds longest_answer{5};

class PostgresWatch final : public Watch {
 public:
  /// A connection that listens.
  PostgresWatch(Handle connection, std::string channel, std::string where)
      : connection_(std::move(connection)),
        channel_(std::move(channel)),
        where_(std::move(where)) {}

  [[nodiscard]] int descriptor() const noexcept override { return PQsocket(connection_.get()); }

  bool changed() override {
    bool told = false;
    if (PQconsumeInput(connection_.get()) != 1) fail();
    while (PGnotify* notification = PQnotifies(connection_.get())) {
      PQfreemem(notification);
      told = true;
    }
    const bool listens_again = take_answers();
    // libpq detects the end of the connection only when it is called.
    static_cast<void>(PQisBusy(connection_.get()));
    if (PQstatus(connection_.get()) != CONNECTION_OK) fail();
    return told || listens_again;
  }

  void set_waiting(bool waiting) override {
    wanted_ = waiting;
    if (!asked_ && wanted_ != listens_) ask();
  }

 private:
  void ask() {
    const std::string command = (wanted_ ? "listen " : "unlisten ") + quote_identifier(channel_);
    if (PQsendQuery(connection_.get(), command.c_str()) != 1) fail();
    asked_ = true;
    listens_ = wanted_;
  }

  /// True when a listen has come into force: earlier commits were not reported.
  bool take_answers() {
    bool listens_again = false;
    while (asked_ && PQisBusy(connection_.get()) == 0) {
      const Result answer{PQgetResult(connection_.get())};
      if (answer == nullptr) {
        asked_ = false;
        listens_again = listens_;
        if (wanted_ != listens_) ask();
      } else if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK) {
        throw failure("listen", server_error_of(answer.get()), where_, true);
      }
    }
    return listens_again;
  }

  [[noreturn]] void fail() const {
    const auto reason = first_line(PQerrorMessage(connection_.get()));
    throw failure(Kind::connection_lost, "listen",
                  {"", reason.empty() ? "the server has closed the connection" : reason}, where_,
                  true);
  }

  Handle connection_;
  std::string channel_;
  std::string where_;
  bool wanted_ = true;
  bool listens_ = true;  ///< or will, after the pending answer
  bool asked_ = false;
};

}  // namespace

Address watch_address(Address address) {
  auto& settings = address.settings;
  const auto limit = read_integer(settings["connect_timeout"]).value_or(0);
  if (limit <= 0 || limit > longest_connect) {
    settings["connect_timeout"] = std::to_string(longest_connect);
  }
  // Nothing is ever sent here, so that only TCP keepalive can detect a vanished server: also when a
  // service file has removed our defaults from the address.
  settings.try_emplace("keepalives_idle", "15");
  settings.try_emplace("keepalives_interval", "5");
  settings.try_emplace("keepalives_count", "3");
  return address;
}

std::unique_ptr<Watch> open_postgres_watch(const Address& address, const NotifyChannel& channel,
                                           const std::stop_token& stop) {
  Handle connection = connect_to(address, {}, stop);
  PQsetNoticeReceiver(
      connection.get(), [](void*, const PGresult*) {}, nullptr);
  if (is_behind_a_pooler(connection.get(), "listen", address.shown, longest_answer, stop)) {
    throw WatchImpossible(
        "a pooler stands before the server, where LISTEN hears nothing; in transaction mode add "
        "twinbox_pooler=transaction to the address (" +
        address.shown + ")");
  }
  run_query(connection.get(),
            {"set idle_session_timeout = 0; listen " + quote_identifier(channel.name), "listen",
             address.shown, longest_answer},
            stop);
  return std::make_unique<PostgresWatch>(std::move(connection), channel.name, address.shown);
}

}  // namespace twinbox::postgres
