// A server that does not answer: calls end all the same, and say what is known of them.
#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <future>
#include <sys/socket.h>
#include <unistd.h>

#include "database/answer_timeout.hpp"
#include "database/pool.hpp"
#include "driver/postgres/connect.hpp"
#include "postgres_driver_test.hpp"
#include "twinbox/database.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox::postgres_test {
namespace {

using namespace std::chrono_literals;

/// Short enough to wait for, long enough for a healthy server on a busy machine.
DatabaseOptions hasty() {
  DatabaseOptions options;
  options.answer_timeout = 1500ms;
  options.retry_timeout = 0ms;
  return options;
}

/// A server process that answers nothing while it lives.
class FrozenBackend {
 public:
  explicit FrozenBackend(const std::string& pid) : pid_(std::stoi(pid)) {
    if (kill(pid_, SIGSTOP) != 0) throw std::runtime_error("the backend cannot be frozen");
  }
  ~FrozenBackend() { kill(pid_, SIGCONT); }
  FrozenBackend(const FrozenBackend&) = delete;
  FrozenBackend& operator=(const FrozenBackend&) = delete;

 private:
  pid_t pid_;
};

/// Takes connections, and says nothing.
class SilentServer {
 public:
  SilentServer() : SilentServer(INADDR_LOOPBACK, 0) {}
  SilentServer(std::uint32_t host, std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(host);
    address.sin_port = htons(port);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(socket_, 16) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("no port to listen on");
    }
    port_ = std::to_string(ntohs(address.sin_port));
  }
  ~SilentServer() {
    for (const int one : clients_) ::close(one);
    ::close(socket_);
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  [[nodiscard]] const std::string& port() const noexcept { return port_; }
  /// Waits for a client.
  void accept() { clients_.push_back(::accept(socket_, nullptr, nullptr)); }
  /// How many clients have come that accept() has not returned.
  std::size_t others() {
    std::size_t count = 0;
    for (int one = 0; (one = ::accept(socket_, nullptr, nullptr)) >= 0; ++count)
      clients_.push_back(one);
    return count;
  }
  void never_block() { ::fcntl(socket_, F_SETFL, O_NONBLOCK); }

 private:
  int socket_;
  std::string port_;
  std::vector<int> clients_;
};

class PostgresSilence : public PostgresDriver {
 protected:
  [[nodiscard]] std::unique_ptr<Connection> connect_hastily() const {
    return make_postgres_driver(address_, hasty(), {})->connect(Access::write);
  }
  static std::optional<Kind> kind_of(const std::optional<DatabaseError>& error) {
    return error ? std::optional{error->kind()} : std::nullopt;
  }
  /// The test server's address for two hosts, the silent one first.
  [[nodiscard]] std::string after(const SilentServer& silent) const {
    const auto real = connect();
    real->begin(Access::read, Scope::statement);
    const std::string port = text_of(*real, "select current_setting('port')");
    const std::string user = text_of(*real, "select current_user");
    const std::string name = text_of(*real, "select current_database()");
    return "host=127.0.0.1,127.0.0.1 port=" + silent.port() + "," + port + " user=" + user +
           " dbname=" + name;
  }
};

TEST_F(PostgresSilence, a_write_whose_answer_never_comes_is_in_doubt) {
  auto connection = connect_hastily();
  connection->begin(Access::write, Scope::statement);
  const std::string pid = pid_of(*connection);
  connection->commit();
  const FrozenBackend frozen{pid};
  connection->begin(Access::write, Scope::statement);
  const auto lost = error_of([&] { run(*connection, own({"select 1"})); });
  EXPECT_EQ(kind_of(lost), Kind::commit_in_doubt);
  EXPECT_NE(std::string_view{lost->what()}.find("answer_timeout"), std::string_view::npos);
  connection->rollback();
  EXPECT_FALSE(connection->usable());
}

TEST_F(PostgresSilence, what_had_not_reached_its_commit_has_not_happened) {
  auto connection = connect_hastily();
  connection->begin(Access::write, Scope::transaction);
  const FrozenBackend frozen{pid_of(*connection)};
  const auto lost = error_of([&] { run(*connection, own({"select 1"})); });
  EXPECT_EQ(kind_of(lost), Kind::connection_lost);
  connection->rollback();
  EXPECT_FALSE(connection->usable());
}

TEST_F(PostgresSilence, a_commit_that_is_never_answered_is_in_doubt) {
  auto connection = connect_hastily();
  connection->begin(Access::write, Scope::transaction);
  const FrozenBackend frozen{pid_of(*connection)};
  EXPECT_EQ(kind_of(error_of([&] { connection->commit(); })), Kind::commit_in_doubt);
}

TEST_F(PostgresSilence, a_rollback_that_is_never_answered_ends) {
  auto connection = connect_hastily();
  connection->begin(Access::write, Scope::transaction);
  const FrozenBackend frozen{pid_of(*connection)};
  connection->rollback();
  EXPECT_FALSE(connection->usable());
}

TEST_F(PostgresSilence, a_statement_that_lasts_too_long_is_ended_on_the_server_too) {
  auto connection = connect_hastily();
  connection->begin(Access::write, Scope::transaction);
  const std::string pid = pid_of(*connection);
  EXPECT_EQ(kind_of(error_of([&] { run(*connection, own({"select pg_sleep(600)"})); })),
            Kind::connection_lost);
  connection->rollback();
  auto other = connect();
  other->begin(Access::read, Scope::statement);
  const auto ends = std::chrono::steady_clock::now() + 60s;
  std::string runs = "t";
  while (runs == "t" && std::chrono::steady_clock::now() < ends) {
    runs = text_of(*other,
                   "select count(*) > 0 from pg_stat_activity where pid = @pid::int and "
                   "state = 'active'",
                   {{"pid", pid}});
  }
  EXPECT_EQ(runs, "f");
}

TEST_F(PostgresSilence, everybody_who_shares_a_commit_learns_that_it_is_in_doubt) {
  DatabaseOptions options = hasty();
  options.pool_size = 1;
  Database database{address_, options};
  Outbox outbox{database, {.schema = "silence_test", .deploy_schema = true}};
  std::string pid;
  database.in_transaction([&](Session& session) { pid = pid_of(session); });
  {
    const FrozenBackend frozen{pid};
    std::vector<std::future<std::optional<Kind>>> callers;
    for (int i = 0; i < 4; ++i) {
      callers.push_back(std::async(std::launch::async, [&] {
        return kind_of(error_of([&] { outbox.enqueue({.topic = Topic{"t"}, .payload = "{}"}); }));
      }));
    }
    int in_doubt = 0;
    for (auto& caller : callers) {
      // Whoever came after the connection was dropped has got a new one.
      const auto kind = caller.get();
      EXPECT_TRUE(!kind || kind == Kind::commit_in_doubt);
      in_doubt += kind == Kind::commit_in_doubt;
    }
    EXPECT_GE(in_doubt, 1);
  }
  Database patient{address_};
  patient.in_transaction(
      [](Session& session) { session.execute("drop schema silence_test cascade"); });
}

TEST_F(PostgresSilence, a_migration_has_no_answer_limit) {
  Database database{address_, hasty()};
  const auto slow = [&] {
    pool_of(database).run(Access::write, Scope::transaction,
                          [](Session& session) { session.execute("select pg_sleep(2)"); });
  };
  EXPECT_EQ(kind_of(error_of(slow)), Kind::connection_lost);
  const WithoutAnswerTimeout unlimited;
  EXPECT_FALSE(error_of(slow));
}

TEST_F(PostgresSilence, a_login_that_is_never_answered_ends) {
  const SilentServer silent;
  const auto driver =
      make_postgres_driver("host=127.0.0.1 user=x dbname=x port=" + silent.port(), hasty(), {});
  EXPECT_EQ(kind_of(error_of([&] { driver->connect(Access::write); })), Kind::connection_lost);
}

TEST_F(PostgresSilence, of_several_hosts_the_one_that_worked_is_tried_first) {
  SilentServer silent;
  silent.never_block();
  const auto driver = make_postgres_driver(after(silent), hasty(), {});
  EXPECT_TRUE(driver->connect(Access::write)->usable());
  EXPECT_EQ(silent.others(), 1u);
  EXPECT_TRUE(driver->connect(Access::write)->usable());
  EXPECT_EQ(silent.others(), 0u);
}

TEST_F(PostgresSilence, of_several_addresses_of_a_host_one_that_is_silent_is_left) {
  const auto real = connect();
  real->begin(Access::read, Scope::statement);
  const std::string port = text_of(*real, "select current_setting('port')");
  // The test server listens at 127.0.0.1 only.
  SilentServer silent{INADDR_LOOPBACK + 1, static_cast<std::uint16_t>(std::stoi(port))};
  silent.never_block();
  postgres::Address address = postgres::parse_address(
      "host=db.example port=" + port + " user=" + text_of(*real, "select current_user") +
      " dbname=" + text_of(*real, "select current_database()"));
  address.addresses_of = [](
                             const std::string& host) -> std::
                                                          vector<std::string> {
                                                            return host == "db.example" ? std::vector<std::string>{"127.0.0.2", "127.0.0.1"}
                                : std::vector<std::string>{};
                                                          };
  const auto first = postgres::connect_to(address, 1500ms);
  EXPECT_EQ(std::string_view{PQhost(first.get())}, "db.example") << "TLS checks this name";
  EXPECT_EQ(std::string_view{PQhostaddr(first.get())}, "127.0.0.1");
  EXPECT_EQ(silent.others(), 1u);
  postgres::connect_to(address, 1500ms);
  EXPECT_EQ(silent.others(), 0u) << "the one that worked is tried first";
}

TEST_F(PostgresSilence, a_stop_ends_the_connect_to_several_hosts) {
  SilentServer silent;
  DatabaseOptions patient;
  patient.answer_timeout = 1h;
  const auto driver = make_postgres_driver(after(silent) + " connect_timeout=3600", patient, {});
  std::stop_source stop;
  auto connecting = std::async(std::launch::async, [&] {
    const StopScope until_stop{stop.get_token()};
    return kind_of(error_of([&] { driver->connect(Access::write); }));
  });
  silent.accept();
  stop.request_stop();
  EXPECT_EQ(connecting.get(), Kind::cancelled);
}

/// A variable of the environment, while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// What the login at a silent server ends with, well before answer_timeout.
std::string refusal_of(const std::string& address) {
  DatabaseOptions patient;
  patient.answer_timeout = 1h;
  const auto error =
      error_of([&] { make_postgres_driver(address, patient, {})->connect(Access::write); });
  return error ? error->what() : "";
}

TEST_F(PostgresSilence, a_login_ends_after_the_connect_timeout_of_the_environment) {
  const SilentServer silent;
  const Variable timeout{"PGCONNECT_TIMEOUT", "1"};
  EXPECT_NE(refusal_of("host=127.0.0.1 port=" + silent.port()).find("connect_timeout=1 s"),
            std::string::npos);
}

TEST_F(PostgresSilence, a_login_ends_after_the_connect_timeout_of_a_service_file) {
  const SilentServer silent;
  const auto file =
      std::filesystem::temp_directory_path() / ("twinbox_service_" + std::to_string(::getpid()));
  std::ofstream{file} << "[north]\nhost=127.0.0.1\nport=" << silent.port()
                      << "\ndbname=d\nconnect_timeout=1\n";
  const Variable services{"PGSERVICEFILE", file.string()};
  EXPECT_NE(refusal_of("service=north").find("connect_timeout=1 s"), std::string::npos);
  {
    const Variable service{"PGSERVICE", "north"};
    EXPECT_NE(refusal_of("dbname=d").find("connect_timeout=1 s"), std::string::npos);
  }
  std::filesystem::remove(file);
}

TEST_F(PostgresSilence, a_server_that_takes_no_writes_is_waited_for) {
  const auto set = [&](const char* sql) {
    Native other{address_};
    other.query("rollback");
    other.query("set default_transaction_read_only = off");
    other.query(sql);
  };
  set("alter role current_user set default_transaction_read_only = on");
  std::atomic<int> retries = 0;
  Environment environment;
  environment.log_level = LogLevel::debug;
  environment.log = [&](const LogEvent& event) {
    if (event.name == "retry" && ++retries == 8)
      set("alter role current_user reset default_transaction_read_only");
  };
  Database database{address_, {}, environment};
  const auto written = error_of([&] {
    pool_of(database).run(Access::write, Scope::statement,
                          [](Session& session) { session.execute("create schema silence_test"); });
  });
  set("alter role current_user reset default_transaction_read_only");
  EXPECT_FALSE(written) << written->what();
  EXPECT_GE(retries, 8) << "more often than a call meets contention";
  set("drop schema silence_test");
  EXPECT_FALSE(pool_of(database).refusal());
}

}  // namespace
}  // namespace twinbox::postgres_test
