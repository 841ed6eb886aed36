#include "simulation/faulty_driver.hpp"

#include <utility>

#include "database/open_driver.hpp"
#include "sql/statement.hpp"

namespace twinbox::simulation {
namespace {

using Kind = DatabaseError::Kind;

/// A connection whose peer may go away. The inner one is shared with the driver when it is the only
/// way to a database in memory.
class FaultyConnection final : public Connection {
 public:
  FaultyConnection(std::shared_ptr<Connection> inner, Faults& faults, bool* dead)
      : inner_(std::move(inner)), faults_(faults), dead_(dead) {}
  ~FaultyConnection() override { inner_->rollback(); }

  [[nodiscard]] Dialect dialect() const noexcept override { return inner_->dialect(); }
  [[nodiscard]] bool in_transaction() const override { return inner_->in_transaction(); }
  [[nodiscard]] bool usable() const noexcept override { return !lost_ && inner_->usable(); }
  void interrupt() noexcept override { inner_->interrupt(); }

  void begin(Access access, Scope scope) override {
    may_fail();
    inner_->begin(access, scope);
    access_ = access;
  }

  std::size_t execute(const Statement& statement, std::span<const Arg> args,
                      RowSink rows) override {
    may_fail();
    const std::size_t count = inner_->execute(statement, args, rows);
    may_fail();
    return count;
  }

  void commit() override {
    stay_dead();
    if (faults_.commits_lie && faults_.on && access_ == Access::write && happens()) {
      inner_->rollback();
      return;
    }
    if (!faults_.on || !happens()) {
      inner_->commit();
      return;
    }
    switch (faults_.dice.roll(5)) {
      case 0:
        inner_->rollback();
        throw DatabaseError(Kind::contention, "commit: as the simulator wants it");
      case 1: lose(Kind::commit_in_doubt, "commit: not done, and the answer is lost");
      case 2: inner_->commit(); lose(Kind::commit_in_doubt, "commit: done, and the answer is lost");
      case 3: inner_->rollback(); crash();
      default: inner_->commit(); crash();
    }
  }

  void rollback() noexcept override { inner_->rollback(); }

 protected:
  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override {
    may_fail();
    return (*inner_.*(&Text::execute_text))(sql, args, rows);
  }

 private:
  /// Never made: it only names the protected way into another session.
  struct Text : Connection {
    using Connection::execute_text;
  };

  bool happens() {
    const bool now = faults_.dice.one_in(faults_.one_in);
    if (now) ++faults_.happened;
    return now;
  }

  void may_fail() {
    stay_dead();
    if (!faults_.on || !happens()) return;
    switch (faults_.dice.roll(3)) {
      case 0: throw DatabaseError(Kind::contention, "busy, as the simulator wants it");
      case 1: lose(Kind::connection_lost, "the connection is lost");
      default: inner_->rollback(); crash();
    }
  }

  void stay_dead() {
    if (dead_ == nullptr || !*dead_) return;
    inner_->rollback();
    throw Crash{};
  }

  [[noreturn]] void crash() {
    if (dead_ != nullptr) *dead_ = true;
    throw Crash{};
  }

  [[noreturn]] void lose(Kind kind, const char* what) {
    lost_ = true;
    inner_->rollback();
    throw DatabaseError(kind, what);
  }

  std::shared_ptr<Connection> inner_;
  Faults& faults_;
  bool* dead_;
  Access access_ = Access::read;
  bool lost_ = false;
};

class FaultyDriver final : public Driver {
 public:
  FaultyDriver(std::unique_ptr<Driver> inner, bool in_memory, Faults& faults, bool* dead)
      : inner_(std::move(inner)), in_memory_(in_memory), faults_(faults), dead_(dead) {}

  [[nodiscard]] Dialect dialect() const noexcept override { return inner_->dialect(); }
  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    return inner_->shape(pool_size);
  }
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] Location location() const override { return inner_->location(); }

  std::unique_ptr<Connection> connect(Access access) override {
    if (dead_ != nullptr && *dead_) throw Crash{};
    if (faults_.on && faults_.dice.one_in(faults_.one_in)) {
      throw DatabaseError(Kind::connection_lost, "connect: nobody answers");
    }
    if (!in_memory_) {
      return std::make_unique<FaultyConnection>(inner_->connect(access), faults_, dead_);
    }
    if (!kept_) kept_ = inner_->connect(access);
    return std::make_unique<FaultyConnection>(kept_, faults_, dead_);
  }

 private:
  std::unique_ptr<Driver> inner_;
  bool in_memory_;
  std::shared_ptr<Connection> kept_;  // shared with the one connection that uses it
  Faults& faults_;
  bool* dead_;
};

}  // namespace

// SplitMix64: the same numbers on every platform.
std::uint64_t Dice::bits() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::unique_ptr<Driver> make_faulty_driver(const std::string& address, Faults& faults,
                                           const DatabaseOptions& options,
                                           const Environment& environment) {
  return std::make_unique<FaultyDriver>(open_driver(address, options, environment),
                                        address == "sqlite::memory:", faults, nullptr);
}

std::unique_ptr<Driver> make_faulty(std::unique_ptr<Driver> file, Faults& faults, bool& dead) {
  return std::make_unique<FaultyDriver>(std::move(file), false, faults, &dead);
}

}  // namespace twinbox::simulation
