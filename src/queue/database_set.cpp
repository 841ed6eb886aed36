#include "twinbox/database_set.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "database/pool.hpp"
#include "queue/store_list.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds longest_interval = std::chrono::days{365};

DatabaseSetOptions checked(DatabaseSetOptions options) {
  if (options.refresh_interval < 0ms || options.refresh_interval > longest_interval) {
    throw std::out_of_range("database set options: refresh_interval is " +
                            std::to_string(options.refresh_interval.count()) + " ms, 0 to " +
                            std::to_string(longest_interval.count()) + " ms are allowed");
  }
  return options;
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
  using Time = std::chrono::microseconds;  ///< of the environment's clock, or of the steady one
  using Call = std::function<void(const StoreChange&)>;

  State(DatabaseSetOptions options, Environment environment)
      : options_(checked(options)), environment_(std::move(environment)) {}

  [[nodiscard]] const Environment& environment() const noexcept { return environment_; }

  void list(std::vector<StoreDefinition> definitions) {
    stores_.replace(std::move(definitions), environment_,
                    [](const std::string&, const std::exception&) { throw; });
  }

  void discover_by(Discover discover) {
    if (!discover) throw std::invalid_argument("database set: the discovery is an empty function");
    discover_ = std::move(discover);
    try {
      refresh();
    } catch (...) {  // logged, and due again soon
    }
    if (options_.refresh_interval > 0ms && !environment_.clock) {
      thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
    }
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
    if (!discover_ || options_.refresh_interval == 0ms || now() < due_.load()) return;
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

  void unsubscribe(std::list<Call>::iterator place) {
    const std::scoped_lock lock{call_mutex_};
    calls_.erase(place);
  }

  [[nodiscard]] const StoreList& stores() const noexcept { return stores_; }

 private:
  [[nodiscard]] Time now() const {
    if (const auto instant = environment_.now()) return instant->time_since_epoch();
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
  }

  void apply(std::vector<StoreDefinition> definitions) {
    // Subscribers see the changes in the order in which they happened.
    const std::scoped_lock lock{call_mutex_};
    const StoreChange change = stores_.replace(
        std::move(definitions), environment_,
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
         {"address", std::string_view{store.database().pool().driver().describe()}}});
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
        reason = error.what();
      } catch (...) {
      }
      environment_.write(LogLevel::error, "refresh",
                         {{"error", std::string_view{reason}},
                          {"failures", std::int64_t{failures_}},
                          {"retry_ms", std::int64_t{delay.count()}}});
    } catch (...) {  // a log that throws must not end the set's thread
    }
  }

  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock{mutex};
    while (!stop.stop_requested()) {
      stopped.wait_for(lock, stop, std::max(due_.load() - now(), Time{1ms}), [] { return false; });
      if (!stop.stop_requested()) step();
    }
  }

  const DatabaseSetOptions options_;
  const Environment environment_;
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
    : set_(set), place_(set.state_->subscribe(std::move(call))) {}

DatabaseSet::Subscription::~Subscription() { set_.state_->unsubscribe(place_); }

}  // namespace twinbox
