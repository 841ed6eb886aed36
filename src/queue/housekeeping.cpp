#include "twinbox/housekeeping.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "queue/box.hpp"
#include "queue/claimed.hpp"
#include "queue/local_time.hpp"
#include "queue/prune.hpp"
#include "twinbox/interruptible.hpp"
#include "twinbox/worker.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Duration a_week = 7 * 24h;
constexpr Duration longest_wait = 24h;
constexpr Duration rest_out_of_reach = 5s;
constexpr Duration longest_unseen = 24h;
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
  if (shortest_lease < 1ms || shortest_lease > 24h) refuse("shortest_lease", "1 ms to 1 day");
  if (retention && *retention < Duration::zero()) refuse("retention", "0 or longer");
}

class Housekeeping::House {
 public:
  using End = ChoreReport::End;

  House(WorkQueue& queue, HousekeepingOptions options, Observer observer, DeadLetters dead)
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
        // What was stopped is unfinished and stays due; a failure may have taken its time.
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
  [[nodiscard]] Duration time() const { return local_time(queue_.database().environment()); }

  /// Where one chore does not reach its store, the others need not try, and wait, in vain.
  void rest() {
    for (const Chore chore : chores) {
      std::optional<Duration>& due = due_[index_of(chore)];
      due = std::max(due.value_or(Duration::min()), time() + rest_out_of_reach);
    }
  }

  /// The chore from the lease to the last batch; whatever it throws is in the report.
  ChoreReport attend(Chore chore, const std::stop_token& stop) {
    ChoreReport report{.chore = chore, .end = End::done};
    const Duration begin = time();
    out_of_reach_ = false;
    try {
      sweep(report, stop);
    } catch (const std::exception& error) {
      const auto* trouble = dynamic_cast<const DatabaseError*>(&error);
      out_of_reach_ = trouble != nullptr && trouble->kind() == DatabaseError::Kind::connection_lost;
      report.end = End::failed;
      report.error = error.what();
    }
    report.took = time() - begin;
    write_down(report);
    return report;
  }

  void sweep(ChoreReport& report, const std::stop_token& stop) {
    const Duration duration =
        std::max(of(options_, report.chore).interval, options_.shortest_lease);
    const LeaseName name{options_.lease_name.str() + "." + std::string{to_string(report.chore)},
                         Trusted{}};
    std::optional<NamedLease> lease;
    try {
      const Interruptible until_stop{stop};
      // Held until the interval is over, and not given back at the end: that is what keeps another
      // process from doing the same again within it.
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
    std::optional<Pruning> pruning;
    while (batch(report, pruning)) {
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

  /// One batch, counted in `report`. True: there may be more.
  bool batch(ChoreReport& report, std::optional<Pruning>& pruning) {
    const std::int64_t limit = of(options_, report.chore).batch;
    if (report.chore == Chore::prune) {
      if (!pruning) {
        pruning.emplace(queue_.box(),
                        PruneOptions{.older_than = *options_.retention, .batch = limit});
      }
      const bool more = pruning->step();
      report.count = pruning->deleted();
      return more;
    }
    const std::size_t swept = report.chore == Chore::reap ? queue_.reap(limit) : expire(limit);
    report.count += swept;
    return static_cast<std::int64_t>(swept) == limit;
  }

  std::size_t expire(std::int64_t limit) {
    Box& box = queue_.box();
    const std::vector<Message> dead =
        box.write([&](Session& session) { return bury_expired(box, session, limit); });
    for (const Message& message : dead) log_dead(box, message, "expired");
    if (dead_ && !dead.empty()) dead_(dead);
    return dead.size();
  }

  void write_down(const ChoreReport& report) {
    {
      const std::scoped_lock lock{mutex_};
      ChoreStats& stats = stats_[index_of(report.chore)];
      ++(report.end == End::elsewhere ? stats.elsewhere : stats.runs);
      stats.rows += report.count;
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
      queue_.box().log(LogLevel::error, "observer_error",
                       {{"error", std::string_view{error.what()}}});
    }
  }

  void log(const ChoreReport& report) {
    const LogLevel level = report.end == End::failed                     ? LogLevel::error
                           : report.end == End::lost                     ? LogLevel::warning
                           : report.end == End::done && report.count > 0 ? LogLevel::info
                                                                         : LogLevel::debug;
    queue_.box().log(level, "housekeeping",
                     {{"chore", to_string(report.chore)},
                      {"end", to_string(report.end)},
                      {"count", static_cast<std::int64_t>(report.count)},
                      {"took_ms", report.took / 1ms},
                      {"error", std::string_view{report.error}}});
  }

  WorkQueue& queue_;
  NamedLeases leases_;
  const HousekeepingOptions options_;
  const Observer observer_;
  const DeadLetters dead_;
  const OwnerToken owner_;
  std::array<std::optional<Duration>, chores.size()> due_{};  ///< by local_time; empty: at once

  bool out_of_reach_ = false;

  mutable std::mutex mutex_;
  std::array<ChoreStats, chores.size()> stats_{};
};

Housekeeping::Housekeeping(WorkQueue& queue, HousekeepingOptions options, Observer observer,
                           DeadLetters dead)
    : house_(std::make_unique<House>(queue, std::move(options), std::move(observer),
                                     std::move(dead))) {}

Housekeeping::~Housekeeping() = default;

HousekeepingReport Housekeeping::step(std::stop_token stop) { return house_->step(stop); }
void Housekeeping::run(std::stop_token stop) { house_->run(stop); }
ChoreStats Housekeeping::stats(Chore chore) const { return house_->stats(chore); }

}  // namespace twinbox
