#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "database/connection_budget.hpp"
#include "database/pool.hpp"
#include "stores/store_list.hpp"
#include "twinbox/stores.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

using Time = ConnectionBudget::Time;  ///< of the environment's clock, or of the steady one

constexpr milliseconds longest_interval = std::chrono::days{365};
constexpr std::size_t most_connections = 100'000;

void check_bound(const char* option, std::int64_t value, std::int64_t low, std::int64_t high,
                 const char* unit = "") {
  if (value >= low && value <= high) return;
  throw std::out_of_range(std::string{"database set options: "} + option + " is " +
                          std::to_string(value) + unit + ", " + std::to_string(low) + " to " +
                          std::to_string(high) + unit + " are allowed");
}

DatabaseSetOptions checked(DatabaseSetOptions options) {
  const auto check_time = [](const char* option, milliseconds value) {
    check_bound(option, value.count(), 0, longest_interval.count(), " ms");
  };
  const auto check_count = [](const char* option, std::size_t value) {
    check_bound(option, static_cast<std::int64_t>(std::min(value, most_connections + 1)), 1,
                static_cast<std::int64_t>(most_connections));
  };
  check_time("refresh_interval", options.refresh_interval);
  check_count("connections_per_server", options.connections_per_server);
  check_count("connections_to_files", options.connections_to_files);
  check_time("idle_timeout", options.idle_timeout);
  return options;
}

Time time_of(const Environment& environment) {
  if (const auto instant = environment.now()) return instant->time_since_epoch();
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

/// How long to wait after a discovery has failed for the nth time in a row.
milliseconds retry_delay(int failures, milliseconds interval, const Environment& environment) {
  const RetryPolicy policy{.first_delay = std::min<milliseconds>(1s, interval),
                           .max_delay = interval,
                           .jitter = Jitter::equal};
  return policy.delay(failures, environment);
}

}  // namespace

class DatabaseSet::State {
 public:
  using Call = std::function<void(const StoreChange&)>;

  State(DatabaseSetOptions options, Environment environment)
      : options_(checked(options)),
        environment_(std::move(environment)),
        budgets_(
            {.per_server = options_.connections_per_server, .files = options_.connections_to_files},
            [clock = environment_] { return time_of(clock); }) {}

  [[nodiscard]] const Environment& environment() const noexcept { return environment_; }

  void list(std::vector<StoreDefinition> definitions) {
    stores_.replace(std::move(definitions), environment_, budgets_,
                    [](const std::string&, const std::exception&) { throw; });
    start();
  }

  void discover_by(Discover discover) {
    if (!discover) throw std::invalid_argument("database set: the discovery is an empty function");
    discover_ = std::move(discover);
    try {
      refresh();
    } catch (...) {  // logged, and due again soon
    }
    start();
  }

  void refresh() {
    if (!discover_) return;
    if (refreshing_ == std::this_thread::get_id()) {
      throw UsageError(
          "database set: refresh() was called by the discovery or a subscriber of the very "
          "refresh that runs; return from it first");
    }
    const std::scoped_lock alone{refresh_mutex_};
    refreshing_ = std::this_thread::get_id();
    try {
      apply(discover_());
      failures_ = 0;
      due_ = now() + options_.refresh_interval;
    } catch (...) {
      note_failure();
      refreshing_ = std::thread::id{};
      throw;
    }
    refreshing_ = std::thread::id{};
  }

  void step() {
    if (options_.idle_timeout > 0ms) budgets_.close_idle(options_.idle_timeout);
    if (!refreshes() || now() < due_.load()) return;
    try {
      refresh();
    } catch (...) {  // logged, and due again soon
    }
  }

  std::list<Call>::iterator subscribe(Call call) {
    const std::scoped_lock lock{call_mutex_};
    call({.added = stores_.all(), .removed = {}});
    return calls_.insert(calls_.end(), std::move(call));
  }

  void unsubscribe(std::list<Call>::iterator position) {
    const std::scoped_lock lock{call_mutex_};
    calls_.erase(position);
  }

  [[nodiscard]] const StoreList& stores() const noexcept { return stores_; }

 private:
  [[nodiscard]] Time now() const { return time_of(environment_); }
  [[nodiscard]] bool refreshes() const { return discover_ && options_.refresh_interval > 0ms; }

  void start() {
    if (environment_.clock || (!refreshes() && options_.idle_timeout == 0ms)) return;
    thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
  }

  void apply(std::vector<StoreDefinition> definitions) {
    // Subscribers see the changes in the order in which they happened.
    const std::scoped_lock lock{call_mutex_};
    const StoreChange change = stores_.replace(
        std::move(definitions), environment_, budgets_,
        [&](const std::string& name, const std::exception& error) {
          environment_.write(
              LogLevel::error, "refuse_store",
              {{"store", std::string_view{name}}, {"error", std::string_view{error.what()}}});
        });
    for (const auto& store : change.removed) log_change("remove_store", *store);
    for (const auto& store : change.added) log_change("add_store", *store);
    if (change.added.empty() && change.removed.empty()) return;
    for (const Call& call : calls_) call(change);
  }

  void log_change(std::string_view event, Store& store) const {
    environment_.write(
        LogLevel::info, event,
        {{"store", std::string_view{store.name()}},
         {"address", std::string_view{pool_of(store.database()).driver().describe()}}});
  }

  /// Called where an exception is being handled.
  void note_failure() noexcept {
    try {
      ++failures_;
      const milliseconds delay = retry_delay(failures_, options_.refresh_interval, environment_);
      due_ = now() + delay;
      std::string reason = "not a std::exception";
      try {
        throw;
      } catch (const std::exception& error) {
        reason = text_of(error);
      } catch (...) {
      }
      environment_.write(LogLevel::error, "refresh",
                         {{"error", std::string_view{reason}},
                          {"failures", std::int64_t{failures_}},
                          {"retry_ms", std::int64_t{delay.count()}}});
    } catch (...) {  // an exception of the log must not end the set's thread
    }
  }

  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock{mutex};
    while (!stop.stop_requested()) {
      Time delay = longest_interval;
      if (options_.idle_timeout > 0ms) delay = options_.idle_timeout / 2;
      if (refreshes()) delay = std::min(delay, due_.load() - now());
      stopped.wait_for(lock, stop, std::max(delay, Time{1ms}), [] { return false; });
      if (!stop.stop_requested()) step();
    }
  }

  const DatabaseSetOptions options_;
  const Environment environment_;
  ConnectionBudgets budgets_;
  Discover discover_;
  StoreList stores_;

  std::mutex refresh_mutex_;  ///< one discovery at a time
  std::atomic<std::thread::id> refreshing_ = {};
  int failures_ = 0;  ///< in a row
  std::atomic<Time> due_ = Time{0};

  std::mutex call_mutex_;  ///< one change at a time, from the list to the last subscriber
  std::list<Call> calls_;

  std::jthread thread_;  // last: it uses all of the above
};

DatabaseSet::DatabaseSet(std::vector<StoreDefinition> stores, DatabaseSetOptions options,
                         Environment environment)
    : state_(std::make_unique<State>(options, std::move(environment))) {
  state_->list(std::move(stores));
}

const Environment& DatabaseSet::environment() const noexcept { return state_->environment(); }

DatabaseSet::DatabaseSet(Discover discover, DatabaseSetOptions options, Environment environment)
    : state_(std::make_unique<State>(options, std::move(environment))) {
  state_->discover_by(std::move(discover));
}

DatabaseSet::~DatabaseSet() = default;

std::vector<std::shared_ptr<Store>> DatabaseSet::stores() const { return state_->stores().all(); }

std::shared_ptr<Store> DatabaseSet::find(std::string_view name) const {
  return state_->stores().find(name);
}

std::size_t DatabaseSet::size() const { return state_->stores().size(); }

void DatabaseSet::refresh() { state_->refresh(); }

void DatabaseSet::step() { state_->step(); }

DatabaseSet::Subscription::Subscription(DatabaseSet& set,
                                        std::function<void(const StoreChange&)> call)
    : set_(set), position_(set.state_->subscribe(std::move(call))) {}

DatabaseSet::Subscription::~Subscription() { set_.state_->unsubscribe(position_); }

}  // namespace twinbox
