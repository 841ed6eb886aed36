#include "database/pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <stdexcept>
#include <string_view>

#include "twinbox/database.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Kind = DatabaseError::Kind;

constexpr std::size_t max_pool_size = 10'000;
constexpr milliseconds max_wait_timeout = 24h;
constexpr int max_retries = 1'000;
constexpr milliseconds first_retry_delay = 2ms;
constexpr milliseconds max_retry_delay = 250ms;
/// A balancer that stops sending traffic because of a refusal must retry eventually, so a refusal
/// expires.
constexpr milliseconds refusal_time = 1min;

/// The lanes this thread has borrowed from, once per connection.
thread_local std::vector<const void*> held_lanes;
/// How many of them belong to a limited budget.
thread_local std::size_t held_budgeted = 0;
/// The pools on which this thread has a caller's transaction open, once per transaction.
thread_local std::vector<const Pool*> callers_transactions;
/// How many refusals this thread's calls have met, of whatever store.
thread_local std::uint64_t met_refusals = 0;

void check_bound(const char* option, std::int64_t value, std::int64_t low, std::int64_t high,
                 const char* unit = "") {
  if (value >= low && value <= high) return;
  throw std::out_of_range(std::string{"database options: "} + option + " is " +
                          std::to_string(value) + unit + ", " + std::to_string(low) + " to " +
                          std::to_string(high) + unit + " are allowed");
}

DatabaseOptions checked(DatabaseOptions options, const Driver& driver) {
  check_bound("pool_size",
              static_cast<std::int64_t>(std::min(options.pool_size, max_pool_size + 1)), 1,
              static_cast<std::int64_t>(max_pool_size));
  check_bound("wait_timeout", options.wait_timeout.count(), 0, max_wait_timeout.count(), " ms");
  check_bound("answer_timeout", options.answer_timeout.count(), 0, max_wait_timeout.count(), " ms");
  check_bound("retry_timeout", options.retry_timeout.count(), 0, max_wait_timeout.count(), " ms");
  check_bound("retries", options.retries, 0, max_retries);
  if (options.name.empty()) options.name = driver.describe();
  return options;
}

/// A server that is away for a switchover or a restart comes back. A file without write permission
/// does not change.
bool may_come_back(Kind kind, const Driver& driver) noexcept {
  return kind == Kind::connection_lost ||
         (kind == Kind::read_only && driver.dialect() != Dialect::sqlite);
}

/// A call that waited for a lock, or was ended because it took too long, has kept its connection
/// from other callers meanwhile.
ConnectionBudget::Result result_of(Kind kind) noexcept {
  const bool failed = kind == Kind::contention || kind == Kind::cancelled ||
                      kind == Kind::connection_lost || kind == Kind::commit_in_doubt;
  return failed ? ConnectionBudget::Result::failed : ConnectionBudget::Result::unknown;
}

void wait_or_stop(milliseconds delay) {
  std::mutex mutex;
  std::unique_lock lock{mutex};
  std::condition_variable_any never;
  never.wait_for(lock, StopScope::token(), delay, [] { return false; });
}

/// Memory is a database of its own for each pool.
std::string database_of(const Driver& driver, const std::string& name) {
  static std::atomic<int> last = 0;
  const auto [server, database] = driver.location();
  if (server.empty()) return name + " #" + std::to_string(++last);
  if (database.empty()) return {};
  return server == "files" ? database : server + "/" + database;
}

/// One connection out of a budget.
class ReservedConnection {
 public:
  static std::optional<ReservedConnection> take(std::shared_ptr<ConnectionBudget> budget) {
    if (!budget->reserve_connection()) return {};
    return ReservedConnection{std::move(budget)};
  }
  ReservedConnection(ReservedConnection&&) noexcept = default;
  ReservedConnection& operator=(ReservedConnection&&) = delete;
  ~ReservedConnection() {
    if (budget_ != nullptr) budget_->unreserve_connection();
  }

 private:
  explicit ReservedConnection(std::shared_ptr<ConnectionBudget> budget)
      : budget_(std::move(budget)) {}
  std::shared_ptr<ConnectionBudget> budget_;  ///< shared by the pools that lead to one server
};

class BudgetedWatch final : public Watch {
 public:
  BudgetedWatch(ReservedConnection connection, std::unique_ptr<Watch> watch)
      : connection_(std::move(connection)), watch_(std::move(watch)) {}

  [[nodiscard]] int descriptor() const noexcept override { return watch_->descriptor(); }
  bool changed() override { return watch_->changed(); }
  [[nodiscard]] std::optional<Clock::time_point> look_again() const override {
    return watch_->look_again();
  }
  void set_waiting(bool waiting) override { watch_->set_waiting(waiting); }

 private:
  ReservedConnection connection_;  ///< returned when the watch is closed
  std::unique_ptr<Watch> watch_;
};

std::string seconds_text(milliseconds time) {
  if (time % 1s == 0ms) return std::to_string(time / 1s) + " s";
  return std::to_string(time.count()) + " ms";
}

}  // namespace

class Pool::Borrowed {
 public:
  Borrowed(Pool& pool, Lane& lane, TimePoint deadline) : pool_(pool), lane_(lane) {
    held_lanes.reserve(held_lanes.size() + 1);
    ConnectionBudget::Grant grant = pool.take(lane, deadline);
    connection_ = std::move(grant.connection);
    if (connection_ == nullptr) {
      grant.close_first.reset();
      open();
    }
    held_lanes.push_back(&lane);
    if (pool_.budget_->limited()) ++held_budgeted;
  }

  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  ~Borrowed() {
    forget();
    if (broken_ || !connection_->usable()) {
      pool_.drop(lane_, std::move(connection_));
    } else {
      pool_.budget_->return_connection(lane_, std::move(connection_), result_);
    }
  }

  Connection& operator*() noexcept { return *connection_; }
  Connection* operator->() noexcept { return connection_.get(); }
  void set_broken() noexcept { broken_ = true; }
  void set_result(ConnectionBudget::Result result) noexcept { result_ = result; }

 private:
  void open() {
    try {
      connection_ = pool_.driver_->connect(lane_.opens);
      connection_->belongs_to(pool_.database_);
    } catch (...) {
      pool_.budget_->give_up(lane_);
      throw;
    }
  }

  void forget() noexcept {
    const auto last = std::find(held_lanes.rbegin(), held_lanes.rend(), &lane_);
    held_lanes.erase(std::next(last).base());
    if (pool_.budget_->limited()) --held_budgeted;
  }

  Pool& pool_;
  Lane& lane_;
  std::unique_ptr<Connection> connection_;
  bool broken_ = false;
  ConnectionBudget::Result result_ = ConnectionBudget::Result::unknown;
};

Pool::Pool(std::unique_ptr<Driver> driver, DatabaseOptions options, Environment environment,
           PoolTime time, std::shared_ptr<ConnectionBudget> budget)
    : driver_(std::move(driver)),
      options_(checked(std::move(options), *driver_)),
      database_(database_of(*driver_, options_.name)),
      environment_(std::move(environment)),
      time_(std::move(time)),
      budget_(budget != nullptr ? std::move(budget) : std::make_shared<ConnectionBudget>()) {
  if (!time_.now) time_.now = steady_clock::now;
  if (!time_.wait) time_.wait = wait_or_stop;

  const Driver::Shape shape = driver_->shape(options_.pool_size);
  lanes_.push_back({.opens = Access::write, .capacity = std::max<std::size_t>(1, shape.writers)});
  // With equal limits for writers and readers every connection can do both, and one limit holds for
  // all.
  if (!shape.shared && shape.writers != shape.readers) {
    lanes_.push_back({.opens = Access::read, .capacity = std::max<std::size_t>(1, shape.readers)});
  }
  for (Lane& lane : lanes_) lane.idle.reserve(lane.capacity);
  if (shape.groups_writes) writers_ = std::make_unique<WriterQueue>();
}

Pool::~Pool() { budget_->clear(lanes_); }

void Pool::in_transaction(const std::function<void(Session&)>& work) {
  run_erased(Access::write, Scope::caller, [&](Session& session) {
    struct Open {
      explicit Open(const Pool& pool) { callers_transactions.push_back(&pool); }
      ~Open() { callers_transactions.pop_back(); }
    } const open{*this};
    work(session);
  });
  wake_.notify();
}

void Pool::check_reentry(Access access) const {
  if (access != Access::read && std::ranges::count(callers_transactions, this) > 0) {
    throw UsageError(
        "store " + name() +
        ": this thread has a transaction open on the same database, and the call would "
        "not be part of it: pass the Session as its first argument, or make the call "
        "after the transaction");
  }
  check_connections(access);
}

void Pool::check_connections(Access access) const {
  const Lane& lane = lanes_[lane_of(access)];
  const auto held = std::count(held_lanes.begin(), held_lanes.end(), &lane);
  if (static_cast<std::size_t>(held) < lane.capacity) return;
  throw UsageError("store " + name() +
                   ": this thread holds every connection that could serve the call, which would "
                   "wait for itself; inside a transaction pass its Session on, or make the call "
                   "after the transaction");
}

void Pool::run_erased(Access access, Scope scope, const Work& work) {
  // A caller may begin a second transaction during the first, if there are connections for it.
  scope == Scope::caller ? check_connections(access) : check_reentry(access);
  const TimePoint begin = time_.now();
  const TimePoint deadline = begin + options_.wait_timeout;
  const std::uint64_t met_before = met_refusals;
  for (int attempt = 1;; ++attempt) {
    bool started = false;
    Kind kind = Kind::other;
    try {
      run_once(access, scope, work, deadline, started);
      return;
    } catch (const PoolExhausted&) {
      throw;
    } catch (const DatabaseError& error) {
      kind = error.kind();
      // A caller's own work may have had other effects; before it began, nothing has happened.
      const bool repeatable = scope != Scope::caller || !started;
      if (!repeatable || !should_retry(kind, access, attempt, begin)) {
        // Refusals that a caller's work has met in other stores are recorded there.
        if (access != Access::read && met_refusals == met_before) remember(error, scope);
        throw;
      }
    }
    // The caller reports a connection that stays lost.
    environment_.write(kind != Kind::contention ? LogLevel::debug : LogLevel::warning, "retry",
                       {{"store", std::string_view{name()}},
                        {"attempt", std::int64_t{attempt}},
                        {"kind", to_string(kind)}});
    time_.wait(retry_delay(attempt));
  }
}

bool Pool::should_retry(Kind kind, Access access, int attempt, TimePoint begin) const {
  if (options_.retries == 0) return false;
  const auto passed = time_.now() - begin;
  const bool away = may_come_back(kind, *driver_);
  // A call that can be stopped runs in a loop, which retries by itself and has other stores to
  // serve. A reader may prefer an immediate error.
  const bool loops =
      StopScope::token().stop_possible() && StopScope::while_away() == StopScope::WhileAway::fail;
  const bool waits = access != Access::read && !loops;
  if (away && waits && passed < options_.retry_timeout) return true;
  // A busy file or a silent server has used up the call's time already.
  return (away || kind == Kind::contention) && attempt <= options_.retries &&
         passed < options_.wait_timeout;
}

void Pool::remember(const DatabaseError& error, Scope scope) {
  const Kind kind = error.kind();
  const bool read_only = kind == Kind::read_only && scope != Scope::caller;
  if (kind != Kind::out_of_space && kind != Kind::corrupt && !read_only) return;
  ++met_refusals;
  const std::scoped_lock lock{refusal_mutex_};
  refusal_ = {.words = error.what(), .at = time_.now()};
  ++refusals_;
}

void Pool::wrote() noexcept { wrote_at_ = time_.now().time_since_epoch().count(); }

std::optional<steady_clock::duration> Pool::since_write() const {
  const TimePoint::rep at = wrote_at_;
  if (at == never_wrote) return {};
  return time_.now().time_since_epoch() - TimePoint::duration{at};
}

void Pool::stored_messages(std::uint64_t refusals) {
  wrote();
  if (refusals == 0) return;
  const std::scoped_lock lock{refusal_mutex_};
  if (refusals == refusals_) refusal_.reset();
}

std::optional<std::string> Pool::refusal() const {
  const std::scoped_lock lock{refusal_mutex_};
  if (!refusal_ || time_.now() - refusal_->at > refusal_time) return {};
  return refusal_->words;
}

void Pool::run_once(Access access, Scope scope, const Work& work, TimePoint deadline,
                    bool& started) {
  // A thread that holds a connection which others may wait for must not queue behind them.
  if (writers_ == nullptr || access == Access::read || held_budgeted > 0) {
    run_on_connection(access, scope, work, deadline, started);
    return;
  }
  WriterQueue::Request call{.access = access, .shared = scope != Scope::caller, .work = &work};
  switch (writers_->wait(
      call, [&] { return deadline - time_.now(); }, StopScope::token())) {
    case WriterQueue::Turn::timed_out:
      throw PoolExhausted(exhausted_message(ConnectionBudget::Answer::pool_full));
    case WriterQueue::Turn::stopped: throw stopped_while_waiting();
    case WriterQueue::Turn::done_by_leader:
      if (call.error) std::rethrow_exception(call.error);
      return;
    case WriterQueue::Turn::leader: break;
  }
  WriterQueue::Leadership lead{*writers_, call};
  if (call.shared && run_as_leader(lead, scope, work, deadline)) return;
  run_on_connection(access, scope, work, deadline, started);
}

bool Pool::run_as_leader(WriterQueue::Leadership& lead, Scope scope, const Work& work,
                         TimePoint deadline) {
  const auto all = [&](Session& session) {
    work(session);
    lead.run_followers(session);
  };
  bool started = false;
  try {
    run_on_connection(lead.access(), scope, all, deadline, started);
  } catch (const DatabaseError& error) {
    if (!lead.has_followers()) throw;
    if (error.kind() == Kind::commit_in_doubt) {
      lead.complete(std::current_exception());
      throw;
    }
    // Running each call alone shows which of them fails.
    lead.retry_alone();
    return false;
  } catch (...) {
    if (!lead.has_followers()) throw;
    lead.retry_alone();
    return false;
  }
  lead.complete();
  return true;
}

void Pool::run_on_connection(Access access, Scope scope, const Work& work, TimePoint deadline,
                             bool& started) {
  Borrowed connection{*this, lanes_[lane_of(access)], deadline};
  bool callers_error = false;
  try {
    {
      const std::stop_callback on_stop{StopScope::token(), [&] { connection->interrupt(); }};
      connection->begin(access, scope);
      started = true;
      callers_error = scope == Scope::caller;
      work(*connection);
      callers_error = false;
    }
    connection->commit();
    connection.set_result(ConnectionBudget::Result::worked);
  } catch (const DatabaseError& error) {
    // A caller's work may have used another database: there only the connection itself can report
    // that it is broken.
    const bool lost =
        error.kind() == Kind::connection_lost || error.kind() == Kind::commit_in_doubt;
    if (lost && !callers_error) connection.set_broken();
    if (!callers_error) connection.set_result(result_of(error.kind()));
    connection->rollback();
    throw;
  } catch (...) {
    connection->rollback();
    throw;
  }
}

std::size_t Pool::lane_of(Access access) const noexcept {
  return access == Access::read && lanes_.size() > 1 ? 1 : 0;
}

ConnectionBudget::Grant Pool::take(Lane& lane, TimePoint deadline) {
  const std::stop_token& stop = StopScope::token();
  auto grant = budget_->take(
      lane, held_budgeted, [&] { return deadline - time_.now(); }, stop);
  if (grant.answer == ConnectionBudget::Answer::stopped) throw stopped_while_waiting();
  if (grant.answer != ConnectionBudget::Answer::granted)
    throw PoolExhausted(exhausted_message(grant.answer));
  return grant;
}

DatabaseError Pool::stopped_while_waiting() const {
  return {Kind::cancelled,
          "store " + name() + ": stopped on request while waiting for a connection"};
}

std::string Pool::exhausted_message(ConnectionBudget::Answer answer) const {
  const std::string store = "store " + name() + ": ";
  const std::string in_time = " within " + seconds_text(options_.wait_timeout);
  if (answer == ConnectionBudget::Answer::pool_full) {
    return store + "no free connection" + in_time + " (pool_size " +
           std::to_string(options_.pool_size) +
           "); raise pool_size or wait_timeout, or keep transactions short";
  }
  const auto& budget_options = budget_->budget_options();
  const std::string budget = " (" + budget_options.option + " " +
                             std::to_string(budget_options.limit) + ", over all stores of the set)";
  if (answer == ConnectionBudget::Answer::too_deep) {
    return store + "this thread holds " + std::to_string(held_budgeted) +
           " connections already, and none is left for one more to " + budget_options.where +
           budget + "; raise " + budget_options.option +
           ", or use fewer stores inside one transaction";
  }
  return store + "no free connection to " + budget_options.where + in_time + budget + "; raise " +
         budget_options.option + " or wait_timeout, or keep transactions short";
}

Pool::Bound Pool::bound() const {
  const std::size_t own = lanes_[0].capacity;
  const std::size_t shared = budget_->for_new();
  return shared < own ? Bound{budget_->budget_options().option, shared} : Bound{"pool_size", own};
}

OpenWatch Pool::watch(const BoxName& box) const {
  OpenWatch open = driver_->watch(box);
  if (!open || !budget_->limited()) return open;
  return [open = std::move(open), without = driver_->watch_without_connection(),
          budget = budget_](const std::stop_token& stop) -> std::unique_ptr<Watch> {
    auto connection = ReservedConnection::take(budget);
    if (connection) return std::make_unique<BudgetedWatch>(std::move(*connection), open(stop));
    return without ? without(stop) : nullptr;
  };
}

bool Pool::holds_budgeted() noexcept { return held_budgeted > 0; }

void Pool::drop(Lane& lane, std::unique_ptr<Connection> connection) noexcept {
  connection.reset();
  budget_->clear(lanes_);
  budget_->give_up(lane);
}

milliseconds Pool::retry_delay(int attempt) const {
  milliseconds base = first_retry_delay;
  for (int i = 1; i < attempt && base < max_retry_delay; ++i) base *= 2;
  base = std::min(base, max_retry_delay);
  const milliseconds half = base / 2;
  const auto choices = static_cast<std::uint64_t>(half.count()) + 1;
  return half + milliseconds{static_cast<std::int64_t>(environment_.random_bits() % choices)};
}

}  // namespace twinbox
