// Connections that lead nowhere and remember what was done with them.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "database/connection.hpp"
#include "sql/statement.hpp"
#include "twinbox/error.hpp"

namespace twinbox {

/// What the connections of a test did, and what is to go wrong next.
struct World {
  std::mutex mutex;
  std::vector<std::string> acts;
  std::vector<Access> accesses;  ///< of each begin
  std::deque<DatabaseError::Kind> connect_faults;
  std::deque<DatabaseError::Kind> begin_faults;
  std::deque<DatabaseError::Kind> commit_faults;
  OpenWatch watch = {};
  int connected = 0;
  int open = 0;
  int most_open = 0;

  void note(int connection, const std::string& act) {
    const std::scoped_lock lock{mutex};
    acts.push_back(std::to_string(connection) + " " + act);
  }
  void maybe_fail(std::deque<DatabaseError::Kind>& faults) {
    const std::scoped_lock lock{mutex};
    if (faults.empty()) return;
    const DatabaseError::Kind kind = faults.front();
    faults.pop_front();
    throw DatabaseError(kind, "as the test wants it");
  }
};

class FakeConnection final : public Connection {
 public:
  FakeConnection(World& world, int number) : world_(world), number_(number) {}
  ~FakeConnection() override {
    world_.note(number_, "close");
    const std::scoped_lock lock{world_.mutex};
    --world_.open;
  }

  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::sqlite; }
  std::size_t execute(const Statement&, std::span<const Arg>, RowSink) override { return 0; }
  [[nodiscard]] bool in_transaction() const override { return true; }
  void begin(Access access, Scope) override {
    world_.note(number_, "begin");
    {
      const std::scoped_lock lock{world_.mutex};
      world_.accesses.push_back(access);
    }
    world_.maybe_fail(world_.begin_faults);
  }
  void commit() override {
    world_.note(number_, "commit");
    world_.maybe_fail(world_.commit_faults);
  }
  void rollback() noexcept override { world_.note(number_, "rollback"); }
  [[nodiscard]] bool usable() const noexcept override { return usable_; }
  void interrupt() noexcept override { world_.note(number_, "interrupt"); }

  void break_it() noexcept { usable_ = false; }
  [[nodiscard]] int number() const noexcept { return number_; }

 protected:
  std::size_t execute_text(std::string_view, std::span<const Arg>, RowSink) override { return 0; }

 private:
  World& world_;
  int number_;
  bool usable_ = true;
};

class FakeDriver final : public Driver {
 public:
  FakeDriver(World& world, std::optional<Shape> shape) : world_(world), shape_(shape) {}

  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::sqlite; }
  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    return shape_.value_or(Shape{pool_size, pool_size, false});
  }
  std::unique_ptr<Connection> connect(Access access) override {
    world_.maybe_fail(world_.connect_faults);
    int number = 0;
    {
      const std::scoped_lock lock{world_.mutex};
      number = ++world_.connected;
      world_.most_open = std::max(world_.most_open, ++world_.open);
    }
    world_.note(number, access == Access::read ? "connect to read" : "connect");
    return std::make_unique<FakeConnection>(world_, number);
  }
  [[nodiscard]] std::string describe() const override { return "fake database"; }
  [[nodiscard]] OpenWatch watch(const BoxName&) const override { return world_.watch; }

 private:
  World& world_;
  std::optional<Shape> shape_;
};

inline int number_of(Session& session) { return dynamic_cast<FakeConnection&>(session).number(); }

}  // namespace twinbox
