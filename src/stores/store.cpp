#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "core/text.hpp"
#include "database/connection_budget.hpp"
#include "database/open_driver.hpp"
#include "queue/box.hpp"
#include "twinbox/database.hpp"
#include "twinbox/stores.hpp"

namespace twinbox {
namespace {

constexpr std::size_t max_name_length = 255;

// Destructured by name, so that an option that is added here cannot be forgotten there.

auto comparable(const RetryPolicy& policy) {
  const auto& [first_delay, max_delay, jitter, max_attempts, custom] = policy;
  return std::tuple{first_delay, max_delay, jitter, max_attempts, custom != nullptr};
}

auto comparable(const BoxOptions& options) {
  const auto& [schema, table, deploy_schema, retry, max_expiries, retention, max_age, gate,
               handler_timeout, hold_keys, require_synchronous] = options;
  return std::tuple{std::string_view{schema},
                    std::string_view{table},
                    deploy_schema,
                    comparable(retry),
                    max_expiries,
                    retention,
                    max_age,
                    gate,
                    handler_timeout,
                    hold_keys,
                    require_synchronous};
}

auto comparable(const DatabaseOptions& options) {
  const auto& [name, pool_size, wait_timeout, answer_timeout, retry_timeout, retries] = options;
  return std::tuple{std::string_view{name}, pool_size,     wait_timeout,
                    answer_timeout,         retry_timeout, retries};
}

auto comparable(const StoreDefinition& definition) {
  const auto& [name, address, database, outbox, inbox] = definition;
  return std::tuple{std::string_view{name}, std::string_view{address}, comparable(database),
                    comparable(outbox), comparable(inbox)};
}

/// A box that is opened on first use.
template <class T>
class Opening {
 public:
  T& get(Database& database, const BoxOptions& options) {
    if (T* box = ready_.load()) return *box;
    // Otherwise this thread could wait for another one that waits for its connection.
    pool_of(database).check_reentry(options.deploy_schema ? Access::write : Access::read);
    std::unique_lock lock{mutex_};
    while (true) {
      if (T* box = ready_.load()) return *box;
      if (!std::exchange(under_way_, true)) break;
      wait(lock, database);
    }
    lock.unlock();
    try {
      auto box = std::make_unique<T>(database, options);
      lock.lock();
      box_ = std::move(box);
      ready_ = box_.get();
      end({});
    } catch (...) {
      lock.lock();
      end(std::current_exception());
      throw;
    }
    return *box_;
  }

 private:
  /// Waits until the current attempt has ended; throws its exception. A cancelled attempt does not
  /// affect the other callers.
  void wait(std::unique_lock<std::mutex>& lock, const Database& database) {
    const std::uint64_t tries = tries_;
    if (!ended_.wait(lock, StopScope::token(), [&] { return tries_ != tries; })) {
      throw DatabaseError(DatabaseError::Kind::cancelled,
                          "store " + database.name() +
                              ": stopped on request while waiting for its tables to be checked");
    }
    if (!error_) return;
    try {
      std::rethrow_exception(error_);
    } catch (const DatabaseError& error) {
      if (error.kind() != DatabaseError::Kind::cancelled) throw;
    }
  }
  void end(std::exception_ptr error) {
    error_ = std::move(error);
    under_way_ = false;
    ++tries_;
    ended_.notify_all();
  }

  std::atomic<T*> ready_ = nullptr;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::unique_ptr<T> box_;
  bool under_way_ = false;
  std::uint64_t tries_ = 0;   ///< that have ended
  std::exception_ptr error_;  ///< of the last one
};

}  // namespace

struct Store::Boxes {
  Opening<Outbox> outbox;
  Opening<Inbox> inbox;
};

bool operator==(const StoreDefinition& a, const StoreDefinition& b) {
  return comparable(a) == comparable(b);
}

Store::Store(StoreDefinition definition, const Environment& environment, ConnectionBudgets* budgets)
    : definition_(std::move(definition)), boxes_(std::make_unique<Boxes>()) {
  check_text("store name", name(), max_name_length);
  const std::string prefix = "store " + name() + ": ";
  try {
    DatabaseOptions options = definition_.database;
    options.name = name();
    auto driver = open_driver(definition_.address, options, environment);
    auto budget = budgets != nullptr ? budgets->at(driver->location()) : nullptr;
    database_.reset(new Database(database_over(std::make_unique<Pool>(
        std::move(driver), std::move(options), environment, PoolTime{}, std::move(budget)))));
    checked_options(definition_.outbox, BoxKind::outbox, database_->dialect());
    checked_options(definition_.inbox, BoxKind::inbox, database_->dialect());
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(prefix + error.what());
  } catch (const std::out_of_range& error) {
    throw std::out_of_range(prefix + error.what());
  }
}

Store::~Store() = default;

Outbox& Store::outbox() { return boxes_->outbox.get(*database_, definition_.outbox); }

Inbox& Store::inbox() { return boxes_->inbox.get(*database_, definition_.inbox); }

}  // namespace twinbox
