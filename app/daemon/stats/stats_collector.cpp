#include "daemon/stats/stats_collector.hpp"

#include <algorithm>

#include "daemon/config/secrets.hpp"
#include <twinbox/database.hpp>
#include <twinbox/error.hpp>

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t max_threads = 8;
constexpr auto watched_interval = 2s;
constexpr auto idle_interval = 10s;
constexpr auto max_interval = 60s;
constexpr auto watch_duration = 30s;

}  // namespace

StatsCollector::StatsCollector(const Stores& stores, Environment environment,
                               std::function<void()> changed, std::chrono::seconds first_wait)
    : environment_(std::move(environment)), changed_(std::move(changed)), first_wait_(first_wait) {
  for (const Stores::ServedStore& entry : stores.all()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (!serves(entry.boxes, kind)) continue;
      boxes_.push_back(
          {std::make_shared<const BoxReport>(BoxReport{.store = entry.store.get(), .kind = kind})});
    }
  }
  thread_count_ = std::min(max_threads, stores.all().size());
}

StatsCollector::~StatsCollector() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void StatsCollector::mark_unreachable(const Store& store, const std::string& error) {
  const std::lock_guard lock{mutex_};
  for (BoxEntry& box_entry : boxes_) {
    if (box_entry.report->store != &store) continue;
    auto report = std::make_shared<BoxReport>(*box_entry.report);
    report->error = without_secrets(error);
    box_entry.report = std::move(report);
  }
}

void StatsCollector::start() {
  started_ = Clock::now();
  watched_ = started_ - watch_duration;
  for (std::size_t i = 0; i < thread_count_; ++i) {
    threads_.emplace_back([this](std::stop_token stop) { collect(stop); });
  }
}

std::vector<StatsCollector::Report> StatsCollector::latest() const {
  std::vector<Report> list;
  const std::lock_guard lock{mutex_};
  for (const BoxEntry& box_entry : boxes_) list.push_back(box_entry.report);
  return list;
}

void StatsCollector::wake_threads() {
  ++changes_;
  due_.notify_all();
}

void StatsCollector::watch() {
  const std::lock_guard lock{mutex_};
  if (Clock::now() - watched_ > watch_duration) wake_threads();
  watched_ = Clock::now();
}

std::vector<StatsCollector::Report> StatsCollector::reports() {
  watch();
  {
    std::unique_lock lock{mutex_};
    collected_.wait_until(lock, started_ + first_wait_, [&] {
      return std::ranges::all_of(boxes_, [](const BoxEntry& box_entry) {
        return box_entry.report->asked || !box_entry.report->error.empty();
      });
    });
  }
  return latest();
}

void StatsCollector::refresh(const Store& store, BoxKind kind) {
  const std::lock_guard lock{mutex_};
  for (BoxEntry& box_entry : boxes_) {
    if (box_entry.report->store == &store && box_entry.report->kind == kind)
      box_entry.urgent = true;
  }
  wake_threads();
}

/// Limits the load of each box and of all together: a thousand small stores are as much work as a
/// large one.
StatsCollector::Clock::duration StatsCollector::pause(const BoxEntry& box_entry,
                                                      Clock::time_point now) const {
  if (box_entry.urgent) return 3 * box_entry.took;
  const bool watched = now - watched_ < watch_duration;
  if (!box_entry.report->error.empty()) return watched ? 10s : max_interval;
  Clock::duration together{};
  for (const BoxEntry& other : boxes_) {
    if (other.report->error.empty()) together += other.took;
  }
  const Clock::duration least = watched ? watched_interval : idle_interval;
  return std::clamp<Clock::duration>(std::max(30 * box_entry.took, 10 * together), least,
                                     max_interval);
}

/// The due box that has waited longest, one per store at a time. Boxes that could not be queried
/// the last time may block again, so they never occupy every thread.
StatsCollector::BoxEntry* StatsCollector::next_due(Clock::time_point now, Clock::time_point& wake) {
  const auto doubtful = [](const BoxEntry& box_entry) { return !box_entry.report->error.empty(); };
  const auto occupied = std::ranges::count_if(
      boxes_, [&](const BoxEntry& box_entry) { return box_entry.busy && doubtful(box_entry); });
  const bool room = occupied == 0 || static_cast<std::size_t>(occupied) + 1 < thread_count_;
  const auto store_is_busy = [&](const Store* store) {
    return std::ranges::any_of(boxes_, [&](const BoxEntry& box_entry) {
      return box_entry.busy && box_entry.report->store == store;
    });
  };
  BoxEntry* found = nullptr;
  for (BoxEntry& box_entry : boxes_) {
    if (box_entry.busy || (doubtful(box_entry) && !room)) continue;
    const Clock::time_point due =
        box_entry.report->asked ? box_entry.ended + pause(box_entry, now) : started_;
    if (due > now) {
      wake = std::min(wake, due);
    } else if ((found == nullptr || box_entry.ended < found->ended) &&
               !store_is_busy(box_entry.report->store)) {
      found = &box_entry;
    }
  }
  return found;
}

std::int64_t StatsCollector::share(std::int64_t most) const {
  const std::int64_t box_count = std::max<std::int64_t>(1, std::ssize(boxes_));
  return std::clamp(max_kept_names / box_count, min_kept_names, most);
}

StatsCollector::Report StatsCollector::read_box(const BoxReport& former) const {
  auto report = std::make_shared<BoxReport>(former);
  report->asked = true;
  try {
    WorkQueue& queue = box_of(*former.store, former.kind);
    CountsSnapshot snapshot =
        Admin{queue}.counts_snapshot(share(Counts::max_names), share(DeadGroups::max_groups));
    report->counts = std::move(snapshot.counts);
    report->dead = std::move(snapshot.dead);
    report->held_keys = std::move(snapshot.held_keys);
    report->blocked_keys = std::move(snapshot.blocked_keys);
    report->workers = Workers{queue}.list();
    report->leases = NamedLeases{queue}.held();
    report->at = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    report->error.clear();
  } catch (const std::exception& error) {
    report->error = without_secrets(error.what());
    if (former.error != report->error && !StopScope::token().stop_requested()) {
      environment_.write(LogLevel::warning, "stats_failed",
                         {{"store", former.store->name()},
                          {"box", to_string(former.kind)},
                          {"error", report->error}});
    }
  }
  return report;
}

void StatsCollector::collect(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    Clock::time_point wake = Clock::now() + max_interval;
    BoxEntry* box_entry = next_due(Clock::now(), wake);
    if (box_entry == nullptr) {
      due_.wait_until(lock, stop, wake, [&, seen = changes_] { return changes_ != seen; });
      continue;
    }
    box_entry->busy = true;
    box_entry->urgent = false;
    const Report former = box_entry->report;
    lock.unlock();
    const Clock::time_point began = Clock::now();
    Report report = [&] {
      const StopScope until_stop{stop};
      return read_box(*former);
    }();
    lock.lock();
    box_entry->report = std::move(report);
    box_entry->busy = false;
    box_entry->ended = Clock::now();
    box_entry->took = box_entry->ended - began;
    wake_threads();  // for a box that had to wait for room
    lock.unlock();
    collected_.notify_all();
    if (changed_) changed_();
    lock.lock();
  }
}

}  // namespace twinbox::app
