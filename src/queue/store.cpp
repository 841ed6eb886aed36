#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "core/text.hpp"
#include "database/budget.hpp"
#include "database/open_driver.hpp"
#include "queue/box.hpp"
#include "twinbox/database_set.hpp"

namespace twinbox {
namespace {

constexpr std::size_t max_name_length = 255;

// Taken apart by name, so that an option that is added here cannot be forgotten there.

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
  const auto& [name, pool_size, wait_limit, answer_limit, retry_limit, retries] = options;
  return std::tuple{std::string_view{name}, pool_size,   wait_limit,
                    answer_limit,           retry_limit, retries};
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
    // Else this thread could wait for another one that waits for its connection.
    database.pool().check_reentry(options.deploy_schema ? Access::write : Access::read);
    std::unique_lock lock{mutex_};
    if (T* box = ready_.load()) return *box;
    if (under_way_.valid()) {
      const auto opened = under_way_;
      lock.unlock();
      return *opened.get();
    }
    std::promise<T*> promise;
    under_way_ = promise.get_future().share();
    lock.unlock();
    try {
      auto box = std::make_unique<T>(database, options);
      lock.lock();
      box_ = std::move(box);
      ready_ = box_.get();
    } catch (...) {
      lock.lock();
      under_way_ = {};
      promise.set_exception(std::current_exception());
      throw;
    }
    under_way_ = {};
    promise.set_value(box_.get());
    return *box_;
  }

 private:
  std::atomic<T*> ready_ = nullptr;
  std::mutex mutex_;
  std::shared_future<T*> under_way_;
  std::unique_ptr<T> box_;
};

}  // namespace

struct Store::Boxes {
  Opening<Outbox> outbox;
  Opening<Inbox> inbox;
};

bool operator==(const StoreDefinition& a, const StoreDefinition& b) {
  return comparable(a) == comparable(b);
}

Store::Store(StoreDefinition definition, const Environment& environment, Budgets* budgets)
    : definition_(std::move(definition)), boxes_(std::make_unique<Boxes>()) {
  check_text("store name", name(), max_name_length);
  const std::string prefix = "store " + name() + ": ";
  try {
    DatabaseOptions options = definition_.database;
    options.name = name();
    auto driver = open_driver(definition_.address, options, environment);
    auto budget = budgets != nullptr ? budgets->at(driver->place()) : nullptr;
    database_ = std::make_unique<Database>(std::make_unique<Pool>(
        std::move(driver), std::move(options), environment, PoolTime{}, std::move(budget)));
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
