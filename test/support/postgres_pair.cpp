#include "support/postgres_pair.hpp"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

namespace twinbox::test {
namespace {

void servers(const std::string& verb, const std::string& folder) {
  const std::string command = test_setting("TWINBOX_TEST_SERVERS") + " " + verb + " " + folder;
  if (std::system(command.c_str()) != 0) throw std::runtime_error(command + ": failed");
}

std::string port_of(const std::string& address) {
  const auto begin = address.rfind(':') + 1;
  return address.substr(begin, address.find('/', begin) - begin);
}

/// The value of `export NAME=value`.
std::string exported(const std::string& file, const std::string& name) {
  std::ifstream lines{file};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("export " + name + "=")) return line.substr(name.size() + 8);
  }
  throw std::runtime_error(file + ": no " + name);
}

void change_setting(PgClient& server, const std::string& setting) {
  server.run("alter system set " + setting);
  server.run("select pg_reload_conf()");
}

}  // namespace

PostgresPair::PostgresPair() {
  static std::atomic<int> count = 0;
  folder_ = test_setting("TWINBOX_TEST_SERVERS_FOLDER") + "/" + std::to_string(getpid()) + "_" +
            std::to_string(++count);
  servers("pair", folder_);
  primary_ = exported(folder_ + "/env", "TWINBOX_PAIR_PRIMARY");
  standby_ = exported(folder_ + "/env", "TWINBOX_PAIR_STANDBY");
}

PostgresPair::~PostgresPair() {
  try {
    servers("stop", folder_);
  } catch (const std::exception&) {
    // What is left ends with the servers of the run, in whose folder it lies.
  }
}

std::string PostgresPair::both() const {
  return "postgresql://twinbox@127.0.0.1:" + port_of(primary_) + ",127.0.0.1:" + port_of(standby_) +
         "/twinbox?target_session_attrs=read-write";
}

void PostgresPair::set_synchronous_standby(const std::string& name) {
  PgClient server{primary_};
  change_setting(server, "synchronous_standby_names = '" + name + "'");
  // A new connection has the settings of the server that it is a child of.
  while (PgClient{primary_}.value("show synchronous_standby_names") != name) {
  }
}

void PostgresPair::catch_up() const {
  const std::string reached = PgClient{primary_}.value("select pg_current_wal_insert_lsn()");
  PgClient standby{standby_};
  while (standby.value("select pg_last_wal_replay_lsn() >= '" + reached + "'") != "t") {
  }
}

void PostgresPair::cut_off_standby() const {
  PgClient standby{standby_};
  standby.run("alter system set primary_conninfo = ''");
  standby.run("select pg_reload_conf()");
  PgClient primary{primary_};
  while (primary.value("select count(*) from pg_stat_replication") != "0") {
  }
}

void PostgresPair::reconnect_standby() const {
  PgClient standby{standby_};
  standby.run("alter system reset primary_conninfo");
  const std::string address =
      "host=127.0.0.1 port=" + port_of(primary_) + " user=twinbox application_name=standby";
  standby.run("alter system set primary_conninfo = '" + address + "'");
  standby.run("select pg_reload_conf()");
}

void PostgresPair::fail_over() {
  servers("stop", folder_ + "/primary");
  servers("promote", folder_ + "/standby");
}

}  // namespace twinbox::test
