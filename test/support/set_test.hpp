// A fixture for tests with several stores, each in a place of its own.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include "support/reused_schema.hpp"
#include <twinbox/stores.hpp>

namespace twinbox::test {

class SetTest : public ::testing::TestWithParam<Backend> {
 protected:
  SetTest() { skip_without_server(GetParam()); }

  ManualClock& clock() { return clock_; }
  LogBook& log() { return log_; }

  /// The test's clock drives the set: it has no thread, and step() does what is due.
  Environment environment() {
    auto environment = on_real_time();
    environment.clock = [this] { return clock_.now(); };
    return environment;
  }
  Environment on_real_time() {
    return {.log = [this](const LogEvent& event) { log_.write(event); },
            .log_level = LogLevel::debug};
  }

  /// A store in a new place: a file, memory, or a schema of its own.
  StoreDefinition define(std::string name) { return define(std::move(name), GetParam()); }
  StoreDefinition define(std::string name, Backend backend) {
    const TestStore& test_store = places_.emplace_back(backend);
    BoxOptions box;
    box.schema = test_store.schema();
    box.deploy_schema = true;
    return {.name = std::move(name), .address = test_store.address(), .outbox = box, .inbox = box};
  }

  /// A store that has no tables yet, though others may have used its place before.
  StoreDefinition define_without_tables(std::string name) {
    StoreDefinition definition = define(std::move(name));
    if (GetParam() == Backend::sqlserver) {
      places_.back().change();
      Database database{definition.address};
      drop_sqlserver_schema(database, definition.outbox.schema);
    }
    definition.outbox.deploy_schema = false;
    return definition;
  }

  /// Renames a table of the store's outbox.
  void rename_table(Store& store, const std::string& from, const std::string& to) {
    for (TestStore& test_store : places_) test_store.change();
    const std::string schema = store.outbox().options().schema + ".";
    store.database().in_transaction([&](Session& session) {
      switch (session.dialect()) {
        case Dialect::sqlite: session.execute("alter table " + from + " rename to " + to); break;
        case Dialect::postgres:
          session.execute("alter table " + schema + from + " rename to " + to);
          break;
        case Dialect::sqlserver:
          session.execute("exec sp_rename '" + schema + from + "', '" + to + "', 'OBJECT'");
      }
    });
  }

  const OwnerToken worker{Uuid::parse("00000000-0000-4000-8000-00000000000a")};

 private:
  ManualClock clock_;
  LogBook log_;
  std::deque<TestStore> places_;
};

inline std::vector<std::string> names_of(const std::vector<std::shared_ptr<Store>>& stores) {
  std::vector<std::string> names;
  for (const auto& store : stores) names.push_back(store->name());
  return names;
}

}  // namespace twinbox::test
