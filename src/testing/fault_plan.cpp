#include <algorithm>
#include <stdexcept>

#include "database/open_driver.hpp"
#include "database/pool.hpp"
#include "sql/statement.hpp"
#include "twinbox/testing.hpp"

namespace twinbox {

void FaultPlan::add(Fault fault) {
  if (fault.left < 1) {
    throw std::out_of_range("fault plan: nth is " + std::to_string(fault.left) +
                            ", 1 (the next one) or more is allowed");
  }
  const std::scoped_lock lock{mutex_};
  faults_.push_back(std::move(fault));
}

void FaultPlan::fail_statement(Kind kind, int nth, std::string name) {
  add({FaultPoint::statement, kind, nth, std::move(name), false});
}
void FaultPlan::fail_commit(Kind kind, int nth) { add({FaultPoint::commit, kind, nth, {}, false}); }
void FaultPlan::lose_commit_reply(int nth, bool committed) {
  add({FaultPoint::commit, Kind::commit_in_doubt, nth, {}, committed});
}
void FaultPlan::fail_connect(int nth) {
  add({FaultPoint::connect, Kind::connection_lost, nth, {}, false});
}

void FaultPlan::clear() {
  const std::scoped_lock lock{mutex_};
  faults_.clear();
}

std::size_t FaultPlan::pending() const {
  const std::scoped_lock lock{mutex_};
  return faults_.size();
}

std::size_t FaultPlan::happened() const {
  const std::scoped_lock lock{mutex_};
  return happened_;
}

std::optional<FaultPlan::Fault> FaultPlan::next(FaultPoint point, std::string_view name) {
  const std::scoped_lock lock{mutex_};
  for (Fault& fault : faults_) {
    if (fault.point == point && (fault.name.empty() || fault.name == name)) --fault.left;
  }
  const auto due =
      std::find_if(faults_.begin(), faults_.end(), [](const Fault& one) { return one.left == 0; });
  if (due == faults_.end()) return std::nullopt;
  Fault fault = std::move(*due);
  // Of several faults for the same call one can happen; the others wait for the next.
  faults_.erase(due);
  for (Fault& other : faults_) other.left = std::max(other.left, 1);
  ++happened_;
  return fault;
}

class FaultyConnection final : public Connection {
 public:
  FaultyConnection(std::shared_ptr<Connection> inner, FaultPlan& plan)
      : inner_(std::move(inner)), plan_(plan) {}
  ~FaultyConnection() override { inner_->rollback(); }

  [[nodiscard]] Dialect dialect() const noexcept override { return inner_->dialect(); }
  [[nodiscard]] bool in_transaction() const override {
    return !failed_ && inner_->in_transaction();
  }
  [[nodiscard]] bool usable() const noexcept override { return !lost_ && inner_->usable(); }
  void interrupt() noexcept override { inner_->interrupt(); }
  void rollback() noexcept override {
    inner_->rollback();
    failed_ = false;
  }

  void begin(Access access, Scope scope) override {
    // A statement that commits itself would leave no commit that could fail.
    inner_->begin(access, scope == Scope::statement ? Scope::transaction : scope);
    writes_ = access != Access::read;
  }

  std::size_t execute(const Statement& statement, std::span<const Arg> args,
                      RowSink rows) override {
    may_fail(statement.name);
    return inner_->execute(statement, args, rows);
  }

  void commit() override {
    const auto fault = writes_ ? plan_.next(FaultPlan::FaultPoint::commit) : std::nullopt;
    if (!fault || fault->committed) {
      inner_->commit();
    } else {
      inner_->rollback();
    }
    if (fault) fail(fault->kind, "commit");
  }

 protected:
  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override {
    may_fail({});
    return (*inner_.*(&Text::execute_text))(sql, args, rows);
  }

 private:
  /// Never constructed: it only names the protected way into another session.
  struct Text : Connection {
    using Connection::execute_text;
  };

  void may_fail(std::string_view name) {
    if (failed_) {
      throw DatabaseError(DatabaseError::Kind::invalid_request,
                          "the transaction has ended with a fault; leave it before you go on",
                          "fault");
    }
    const auto fault = plan_.next(FaultPlan::FaultPoint::statement, name);
    if (!fault) return;
    // Statements after an error must neither be committed nor appear to succeed.
    inner_->rollback();
    failed_ = true;
    fail(fault->kind, name.empty() ? "statement" : std::string{name});
  }

  [[noreturn]] void fail(DatabaseError::Kind kind, const std::string& what) {
    using Kind = DatabaseError::Kind;
    if (kind == Kind::connection_lost || kind == Kind::commit_in_doubt) lost_ = true;
    throw DatabaseError(
        kind, what + ": " + std::string{to_string(kind)} + ", as the fault plan says", "fault");
  }

  std::shared_ptr<Connection> inner_;  // shared with the driver where it is the whole database
  FaultPlan& plan_;
  bool writes_ = false;
  bool failed_ = false;
  bool lost_ = false;
};

class FaultyDriver final : public Driver {
 public:
  FaultyDriver(std::unique_ptr<Driver> inner, FaultPlan& plan)
      : inner_(std::move(inner)), plan_(plan) {}

  [[nodiscard]] Dialect dialect() const noexcept override { return inner_->dialect(); }
  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    return inner_->shape(pool_size);
  }
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] Location location() const override { return inner_->location(); }
  [[nodiscard]] OpenWatch watch(const BoxName& box) const override { return inner_->watch(box); }

  std::unique_ptr<Connection> connect(Access access) override {
    if (plan_.next(FaultPlan::FaultPoint::connect)) {
      throw DatabaseError(DatabaseError::Kind::connection_lost,
                          describe() + ": no connection, as the fault plan says", "fault");
    }
    if (!inner_->shape(1).shared) {
      return std::make_unique<FaultyConnection>(inner_->connect(access), plan_);
    }
    // A database in memory lives as long as its only connection.
    if (!memory_) memory_ = inner_->connect(access);
    return std::make_unique<FaultyConnection>(memory_, plan_);
  }

 private:
  std::unique_ptr<Driver> inner_;
  FaultPlan& plan_;
  std::shared_ptr<Connection> memory_;  // shared with the one connection that uses it
};

Database open_faulty(std::string_view address, FaultPlan& plan, DatabaseOptions options,
                     Environment environment) {
  auto driver = std::make_unique<FaultyDriver>(open_driver(address, options, environment), plan);
  return database_over(
      std::make_unique<Pool>(std::move(driver), std::move(options), std::move(environment)));
}

}  // namespace twinbox
