#include "twinbox/housekeeping.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "database/answer_timeout.hpp"
#include "queue/box.hpp"
#include "queue/claimed.hpp"
#include "queue/prune.hpp"
#include "queue/steady_time.hpp"
#include "queue/sweep.hpp"
#include "twinbox/database.hpp"
#include "twinbox/health.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Duration a_week = 7 * 24h;
constexpr Duration longest_wait = 24h;
constexpr Duration retry_out_of_reach = 5s;
constexpr Duration longest_unseen = 24h;
/// Of one chore: a failure that concerns every row must not try them all one by one.
constexpr std::size_t most_skipped = 100;
constexpr std::array chores{Chore::reap, Chore::expire, Chore::prune};

std::size_t index_of(Chore chore) { return static_cast<std::size_t>(chore); }

[[noreturn]] void refuse(const std::string& option, const std::string& bounds) {
  throw std::out_of_range("housekeeping options: " + option + " must be " + bounds);
}

void check_chore(Chore chore, const ChoreOptions& options) {
  const std::string name{to_string(chore)};
  if (options.interval < 1ms || options.interval > 365 * 24h)
    refuse(name + ".interval", "1 ms to 365 days");
  if (options.batch < 1 || options.batch > 100'000) refuse(name + ".batch", "1 to 100000");
}

const ChoreOptions& of(const HousekeepingOptions& options, Chore chore) {
  switch (chore) {
    case Chore::reap: return options.reap;
    case Chore::expire: return options.expire;
    case Chore::prune: break;
  }
  return options.prune;
}

HousekeepingOptions checked(HousekeepingOptions options, const WorkQueue& queue) {
  options.check();
  if (!options.retention) options.retention = queue.options().retention;
  return options;
}

HousekeepingOptions keeping(Duration retention, ChoreOptions prune) {
  HousekeepingOptions options;
  options.retention = retention;
  options.prune = prune;
  return options;
}

}  // namespace

std::string_view to_string(Chore chore) noexcept {
  switch (chore) {
    case Chore::reap: return "reap";
    case Chore::expire: return "expire";
    case Chore::prune: return "prune";
  }
  return "unknown";
}

std::string_view to_string(ChoreReport::End end) noexcept {
  switch (end) {
    case ChoreReport::End::done: return "done";
    case ChoreReport::End::stopped: return "stopped";
    case ChoreReport::End::elsewhere: return "elsewhere";
    case ChoreReport::End::lost: return "lost";
    case ChoreReport::End::failed: return "failed";
  }
  return "unknown";
}

HousekeepingOptions HousekeepingOptions::per_handler(std::optional<Duration> retention) {
  HousekeepingOptions options;
  options.retention = retention;
  options.prune = {.enabled = retention.has_value(), .interval = 1h, .batch = 10'000};
  return options;
}

HousekeepingOptions HousekeepingOptions::at_most_once() {
  return keeping(a_week, {.interval = 1h, .batch = 1000});
}

HousekeepingOptions HousekeepingOptions::event_bus_outbox() {
  return keeping(a_week, {.interval = 30s, .batch = 100});
}

HousekeepingOptions HousekeepingOptions::event_bus_inbox() {
  return keeping(a_week, {.interval = 1h, .batch = 1000});
}

void HousekeepingOptions::check() const {
  for (const Chore chore : chores) check_chore(chore, of(*this, chore));
  if (min_lease < 1ms || min_lease > 24h) refuse("min_lease", "1 ms to 1 day");
  if (retention && *retention < Duration::zero()) refuse("retention", "0 or longer");
}

class Housekeeping::Runner {
 public:
  using End = ChoreReport::End;
  /// A walk over the rows of a chore.
  enum class Pass { reap, expire, max_age, prune };

  Runner(WorkQueue& queue, HousekeepingOptions options, Observer observer, DeadLetters dead)
      : queue_(queue),
        leases_(queue),
        options_(checked(std::move(options), queue)),
        observer_(std::move(observer)),
        dead_(std::move(dead)),
        owner_(OwnerToken::make(queue.database().environment())) {}

  HousekeepingReport step(const std::stop_token& stop) {
    HousekeepingReport report{.chores = {}, .next = longest_wait};
    for (const Chore chore : chores) {
      if (!of(options_, chore).enabled) continue;
      std::optional<Duration>& due = due_[index_of(chore)];
      const Duration begin = time();
      if ((!due || *due <= begin) && !stop.stop_requested()) {
        report.chores.push_back(attend(chore, stop));
        const End end = report.chores.back().end;
        if (out_of_reach_) {
          rest();
          break;
        }
        // A stopped chore is unfinished and stays due; a failure may have taken its time.
        if (end != End::stopped)
          due = (end == End::failed ? time() : begin) + of(options_, chore).interval;
      }
    }
    for (const Chore chore : chores) {
      if (!of(options_, chore).enabled) continue;
      const Duration due = due_[index_of(chore)].value_or(Duration::min());
      const Duration now = time();
      report.next = std::min(report.next, due <= now ? Duration::zero() : due - now);
    }
    return report;
  }

  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any nothing;
    std::unique_lock lock{mutex};
    while (!stop.stop_requested()) {
      const Duration next = step(stop).next;
      nothing.wait_for(lock, stop, next, [] { return false; });
    }
  }

  [[nodiscard]] ChoreStats stats(Chore chore) const {
    const std::scoped_lock lock{mutex_};
    return stats_[index_of(chore)];
  }

 private:
  [[nodiscard]] Duration time() const { return steady_time(queue_.database().environment()); }

  /// If one chore does not reach its store, the others would wait in vain and are skipped.
  void rest() {
    for (const Chore chore : chores) {
      std::optional<Duration>& due = due_[index_of(chore)];
      due = std::max(due.value_or(Duration::min()), time() + retry_out_of_reach);
    }
  }

  /// The chore from the lease to the last batch; its exceptions are in the report.
  ChoreReport attend(Chore chore, const std::stop_token& stop) {
    ChoreReport report{.chore = chore, .end = End::done};
    const Duration begin = time();
    out_of_reach_ = false;
    try {
      sweep(report, stop);
    } catch (const std::exception& error) {
      const auto* database_error = dynamic_cast<const DatabaseError*>(&error);
      out_of_reach_ = database_error != nullptr &&
                      database_error->kind() == DatabaseError::Kind::connection_lost;
      report.end = End::failed;
      report.error = text_of(error);
    }
    report.took = time() - begin;
    write_down(report);
    return report;
  }

  void sweep(ChoreReport& report, const std::stop_token& stop) {
    const Duration duration = std::max(of(options_, report.chore).interval, options_.min_lease);
    const LeaseName name{options_.lease_name.str() + "." + std::string{to_string(report.chore)},
                         Unchecked{}};
    std::optional<NamedLease> lease;
    try {
      const StopScope until_stop{stop};
      // Held until the interval is over, and not released at the end: that keeps other processes
      // from repeating the chore within it.
      lease = leases_.try_acquire(name, owner_, duration);
      if (lease) {
        sweep_under(*lease, duration, report, stop);
        if (report.chore == Chore::reap && report.end == End::done)
          Workers{queue_}.forget(longest_unseen);
      } else {
        report.end = End::elsewhere;
      }
    } catch (const DatabaseError& error) {
      if (error.kind() != DatabaseError::Kind::cancelled || !stop.stop_requested()) throw;
      report.end = End::stopped;
    }
    if (lease && report.end == End::stopped) leases_.release(*lease);
  }

  void sweep_under(const NamedLease& lease, Duration duration, ChoreReport& report,
                   const std::stop_token& stop) {
    Duration renewed = time();
    for (const Pass pass : passes(report.chore)) {
      const PageWork work = work_of(pass);
      while (page(pass, work, report, stop)) {
        if (stop.stop_requested()) {
          report.end = End::stopped;
          return;
        }
        const Duration now = time();
        if (now - renewed < duration / 3) continue;
        if (!leases_.renew(lease, duration)) {
          report.end = End::lost;
          return;
        }
        renewed = now;
      }
    }
  }

  [[nodiscard]] std::vector<Pass> passes(Chore chore) const {
    if (chore == Chore::reap) return {Pass::reap};
    if (chore == Chore::prune) return {Pass::prune};
    if (!queue_.options().max_age) return {Pass::expire};
    return {Pass::expire, Pass::max_age};
  }

  PageWork work_of(Pass pass) {
    Box& box = box_of(queue_);
    switch (pass) {
      case Pass::reap: return std::bind_front(reap_page, std::cref(box));
      case Pass::expire: return std::bind_front(expire_page, std::cref(box));
      case Pass::max_age: {
        const std::int64_t below =
            box.in_own_transaction(Access::read, Scope::statement,
                                   [&](Session& session) { return max_age_bound(box, session); });
        return
            [&box, below](Session& session, const Position& after, std::int64_t limit,
                          RowPage& page) { max_age_page(box, session, below, after, limit, page); };
      }
      case Pass::prune: break;
    }
    const PruneOptions options{.older_than = *options_.retention};
    return [&box, options](Session& session, const Position& after, std::int64_t limit,
                           RowPage& page) {
      prune_page(box, session, options, INT64_MAX, after, limit, page);
    };
  }

  /// One page, counted in `report`. True: there may be more.
  bool page(Pass pass, const PageWork& work, ChoreReport& report, const std::stop_token& stop) {
    std::optional<WithoutAnswerTimeout> unlimited;
    if (pass == Pass::prune) unlimited.emplace();
    const PageWalk::Step step = walks_[static_cast<std::size_t>(pass)].step(
        box_of(queue_), of(options_, report.chore).batch, work, stop);
    report.count += step.page.changed;
    const std::string_view reason = pass == Pass::max_age ? max_age_reason : expired_reason;
    for (const Message& message : step.page.dead) log_dead(box_of(queue_), message, reason);
    if (dead_ && !step.page.dead.empty()) dead_(step.page.dead, reason);
    if (step.stuck) {
      ++report.skipped;
      report.error = step.stuck->error;
      log(report.chore, *step.stuck);
      if (report.skipped >= most_skipped) {
        throw std::runtime_error(
            std::to_string(most_skipped) +
            " rows failed, the next chore goes on behind them; the last: " + step.stuck->error);
      }
    }
    return step.more;
  }

  void write_down(const ChoreReport& report) {
    {
      const std::scoped_lock lock{mutex_};
      ChoreStats& stats = stats_[index_of(report.chore)];
      ++(report.end == End::elsewhere ? stats.elsewhere : stats.runs);
      stats.rows += report.count;
      stats.skipped += report.skipped;
      if (report.end == End::failed) {
        ++stats.failures;
        stats.last_error = report.error;
      }
    }
    log(report);
    if (!observer_) return;
    try {
      observer_(report);
    } catch (const std::exception& error) {
      box_of(queue_).log(LogLevel::error, "observer_error", {{"error", text_of(error)}});
    }
  }

  void log(Chore chore, const StuckRow& stuck) {
    box_of(queue_).log(LogLevel::error, "stuck_row",
                       {{"chore", to_string(chore)},
                        {"source", std::string_view{stuck.row.source}},
                        {"id", std::string_view{stuck.row.id}},
                        {"error", std::string_view{stuck.error}},
                        {"advice",
                         "remove the trigger, foreign key or lock that the error names; the next "
                         "chore tries the row again"}});
  }

  void log(const ChoreReport& report) {
    const LogLevel level = report.end == End::failed                       ? LogLevel::error
                           : report.end == End::lost || report.skipped > 0 ? LogLevel::warning
                           : report.end == End::done && report.count > 0   ? LogLevel::info
                                                                           : LogLevel::debug;
    box_of(queue_).log(level, "housekeeping",
                       {{"chore", to_string(report.chore)},
                        {"end", to_string(report.end)},
                        {"count", static_cast<std::int64_t>(report.count)},
                        {"skipped", static_cast<std::int64_t>(report.skipped)},
                        {"took_ms", report.took / 1ms},
                        {"error", std::string_view{report.error}}});
  }

  WorkQueue& queue_;
  NamedLeases leases_;
  const HousekeepingOptions options_;
  const Observer observer_;
  const DeadLetters dead_;
  const OwnerToken owner_;
  std::array<std::optional<Duration>, chores.size()> due_{};  ///< by steady_time; empty: at once

  std::array<PageWalk, 4> walks_{};  ///< by Pass: an interrupted walk continues where it stopped

  bool out_of_reach_ = false;

  mutable std::mutex mutex_;
  std::array<ChoreStats, chores.size()> stats_{};
};

Housekeeping::Housekeeping(WorkQueue& queue, HousekeepingOptions options, Observer observer,
                           DeadLetters dead)
    : runner_(std::make_unique<Runner>(queue, std::move(options), std::move(observer),
                                       std::move(dead))) {}

Housekeeping::~Housekeeping() = default;

HousekeepingReport Housekeeping::step(std::stop_token stop) { return runner_->step(stop); }
void Housekeeping::run(std::stop_token stop) { runner_->run(stop); }
ChoreStats Housekeeping::stats(Chore chore) const { return runner_->stats(chore); }

}  // namespace twinbox
