#include "daemon/census.hpp"

#include <algorithm>

#include "daemon/secrets.hpp"
#include <twinbox/error.hpp>
#include <twinbox/stop_scope.hpp>

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_walkers = 8;
constexpr auto watched_pause = 2s;
constexpr auto unwatched_pause = 10s;
constexpr auto longest_pause = 60s;
constexpr auto watch_lasts = 30s;

}  // namespace

CensusTaker::CensusTaker(const Stores& stores, Environment environment,
                         std::function<void()> changed, std::chrono::seconds patience)
    : environment_(std::move(environment)), changed_(std::move(changed)), patience_(patience) {
  for (const Stores::Entry& entry : stores.all()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (!serves(entry.boxes, kind)) continue;
      sites_.push_back(
          {std::make_shared<const BoxReport>(BoxReport{.store = entry.store.get(), .kind = kind})});
    }
  }
  walker_count_ = std::min(most_walkers, stores.all().size());
}

CensusTaker::~CensusTaker() {
  for (std::jthread& walker : walkers_) walker.request_stop();
  walkers_.clear();
}

void CensusTaker::doubt(const Store& store, const std::string& error) {
  const std::lock_guard lock{mutex_};
  for (Site& site : sites_) {
    if (site.report->store != &store) continue;
    auto report = std::make_shared<BoxReport>(*site.report);
    report->error = without_secrets(error);
    site.report = std::move(report);
  }
}

void CensusTaker::start() {
  started_ = Clock::now();
  watched_ = started_ - watch_lasts;
  for (std::size_t i = 0; i < walker_count_; ++i) {
    walkers_.emplace_back([this](std::stop_token stop) { walk(stop); });
  }
}

std::vector<CensusTaker::Report> CensusTaker::glance() const {
  std::vector<Report> list;
  const std::lock_guard lock{mutex_};
  for (const Site& site : sites_) list.push_back(site.report);
  return list;
}

void CensusTaker::wake_walkers() {
  ++changes_;
  due_.notify_all();
}

void CensusTaker::watch() {
  const std::lock_guard lock{mutex_};
  if (Clock::now() - watched_ > watch_lasts) wake_walkers();
  watched_ = Clock::now();
}

std::vector<CensusTaker::Report> CensusTaker::reports() {
  watch();
  {
    std::unique_lock lock{mutex_};
    visited_.wait_until(lock, started_ + patience_, [&] {
      return std::ranges::all_of(sites_, [](const Site& site) {
        return site.report->asked || !site.report->error.empty();
      });
    });
  }
  return glance();
}

void CensusTaker::look_again(const Store& store, BoxKind kind) {
  const std::lock_guard lock{mutex_};
  for (Site& site : sites_) {
    if (site.report->store == &store && site.report->kind == kind) site.urgent = true;
  }
  wake_walkers();
}

/// Each box for itself, and all together: a thousand small stores are as much work as a large one.
CensusTaker::Clock::duration CensusTaker::pause(const Site& site, Clock::time_point now) const {
  if (site.urgent) return 3 * site.took;
  const bool watched = now - watched_ < watch_lasts;
  if (!site.report->error.empty()) return watched ? 10s : longest_pause;
  Clock::duration together{};
  for (const Site& other : sites_) {
    if (other.report->error.empty()) together += other.took;
  }
  const Clock::duration least = watched ? watched_pause : unwatched_pause;
  return std::clamp<Clock::duration>(std::max(30 * site.took, 10 * together), least, longest_pause);
}

/// The box that has waited longest among those that are due, one of a store at a time. Boxes that
/// could not be asked the last time may block whoever asks them again, so they never occupy every
/// walker.
CensusTaker::Site* CensusTaker::next_due(Clock::time_point now, Clock::time_point& wake) {
  const auto doubtful = [](const Site& site) { return !site.report->error.empty(); };
  const auto occupied =
      std::ranges::count_if(sites_, [&](const Site& site) { return site.busy && doubtful(site); });
  const bool room = occupied == 0 || static_cast<std::size_t>(occupied) + 1 < walker_count_;
  const auto store_is_busy = [&](const Store* store) {
    return std::ranges::any_of(
        sites_, [&](const Site& site) { return site.busy && site.report->store == store; });
  };
  Site* found = nullptr;
  for (Site& site : sites_) {
    if (site.busy || (doubtful(site) && !room)) continue;
    const Clock::time_point due = site.report->asked ? site.ended + pause(site, now) : started_;
    if (due > now) {
      wake = std::min(wake, due);
    } else if ((found == nullptr || site.ended < found->ended) &&
               !store_is_busy(site.report->store)) {
      found = &site;
    }
  }
  return found;
}

std::int64_t CensusTaker::share(std::int64_t most) const {
  const std::int64_t sites = std::max<std::int64_t>(1, std::ssize(sites_));
  return std::clamp(most_kept / sites, least_kept, most);
}

CensusTaker::Report CensusTaker::look(const BoxReport& former) const {
  auto report = std::make_shared<BoxReport>(former);
  report->asked = true;
  try {
    WorkQueue& queue = box_of(*former.store, former.kind);
    Census census = Admin{queue}.census(share(Counts::most_names), share(DeadGroups::most_groups));
    report->counts = std::move(census.counts);
    report->dead = std::move(census.dead);
    report->held_keys = std::move(census.held_keys);
    report->blocked_keys = std::move(census.blocked_keys);
    report->workers = Workers{queue}.list();
    report->leases = NamedLeases{queue}.held();
    report->at = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    report->error.clear();
  } catch (const std::exception& error) {
    report->error = without_secrets(error.what());
    if (former.error != report->error && !StopScope::token().stop_requested()) {
      environment_.write(LogLevel::warning, "census_failed",
                         {{"store", former.store->name()},
                          {"box", to_string(former.kind)},
                          {"error", report->error}});
    }
  }
  return report;
}

void CensusTaker::walk(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    Clock::time_point wake = Clock::now() + longest_pause;
    Site* site = next_due(Clock::now(), wake);
    if (site == nullptr) {
      due_.wait_until(lock, stop, wake, [&, seen = changes_] { return changes_ != seen; });
      continue;
    }
    site->busy = true;
    site->urgent = false;
    const Report former = site->report;
    lock.unlock();
    const Clock::time_point began = Clock::now();
    Report report = [&] {
      const StopScope until_stop{stop};
      return look(*former);
    }();
    lock.lock();
    site->report = std::move(report);
    site->busy = false;
    site->ended = Clock::now();
    site->took = site->ended - began;
    wake_walkers();  // for a box that had to wait for room
    lock.unlock();
    visited_.notify_all();
    if (changed_) changed_();
    lock.lock();
  }
}

}  // namespace twinbox::app
