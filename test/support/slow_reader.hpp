// A statement that is stopped in its middle, after its snapshot was taken.
#pragma once

#include <string>

#include "support/postgres.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {

/// A role for which every look at some rows of a table waits until on_progress(). `admin` keeps
/// them waiting; `rows` says which, in SQL.
class SlowReader {
 public:
  SlowReader(PgClient& admin, const Schema& schema, const std::string& name,
             const std::string& table, const std::string& rows)
      : admin_(admin), role_(name + "_slow") {
    admin_.run("create role " + role_ + " login");
    admin_.run(schema.print_grants(role_));
    admin_.run("create function " + name +
               ".pause(here boolean) returns boolean language plpgsql as $$ begin if here then "
               "perform pg_advisory_xact_lock_shared(4711); end if; return true; end $$");
    admin_.run("alter table " + name + "." + table + " enable row level security");
    admin_.run("create policy pause on " + name + "." + table + " using (" + name + ".pause(" +
               rows + "))");
    admin_.run("select pg_advisory_lock(4711)");
  }
  SlowReader(const SlowReader&) = delete;
  SlowReader& operator=(const SlowReader&) = delete;
  ~SlowReader() {
    admin_.run("drop owned by " + role_ + " cascade");
    admin_.run("drop role " + role_);
  }

  void on_progress() { admin_.run("select pg_advisory_unlock(4711)"); }
  [[nodiscard]] std::string address(const std::string& address) const {
    return "postgresql://" + role_ + address.substr(address.find('@'));
  }

 private:
  PgClient& admin_;
  std::string role_;
};

}  // namespace twinbox::test
