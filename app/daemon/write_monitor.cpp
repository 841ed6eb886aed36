#include "daemon/write_monitor.hpp"

#include <algorithm>

#include "daemon/secrets.hpp"
#include <twinbox/health.hpp>
#include <twinbox/stop_scope.hpp>

namespace twinbox::app {
namespace {

constexpr std::size_t usual_threads = 8;
/// Where probes hang in their commits, which cannot be ended.
constexpr std::size_t most_threads = 64;

std::string seconds_text(WriteMonitor::Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
         " ms";
}

}  // namespace

WriteMonitor::WriteMonitor(const Stores& stores, Environment environment, Times times)
    : environment_(std::move(environment)), times_(times) {
  for (const Stores::Entry& entry : stores.all()) {
    sites_.push_back({.store = entry.store.get(), .boxes = entry.boxes});
  }
}

WriteMonitor::~WriteMonitor() { stop(); }

void WriteMonitor::mark_unreachable(const Store& store, const std::string& error) {
  const std::lock_guard lock{mutex_};
  for (Site& site : sites_) {
    if (site.store == &store) site.error = without_secrets(error);
  }
}

void WriteMonitor::start() {
  const std::lock_guard lock{mutex_};
  watched_ = Clock::now();
  stopped_ = false;
  add_threads();
}

/// A probe that hangs keeps its thread, and another one goes on with the other stores.
void WriteMonitor::add_threads() {
  const Clock::time_point now = Clock::now();
  const auto hanging = static_cast<std::size_t>(std::ranges::count_if(
      sites_, [&](const Site& site) { return site.busy && now - site.began > times_.limit; }));
  const std::size_t wanted = std::min({usual_threads + hanging, most_threads, sites_.size()});
  while (!stopped_ && threads_.size() < wanted) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void WriteMonitor::stop() {
  {
    const std::lock_guard lock{mutex_};
    stopped_ = true;
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  limits_.end_all();
  threads_.clear();
}

void WriteMonitor::watch() {
  const std::lock_guard lock{mutex_};
  add_threads();
  const Clock::time_point now = Clock::now();
  const bool slept = now - watched_ > times_.watched;
  watched_ = now;
  if (!slept) return;
  ++changes_;
  due_.notify_all();
}

const WriteMonitor::Site& WriteMonitor::site_of(const Store& store) const {
  return *std::ranges::find(sites_, &store, &Site::store);
}

std::uint64_t WriteMonitor::probes(const Store& store) const {
  const std::lock_guard lock{mutex_};
  return site_of(store).probes;
}

std::optional<std::string> WriteMonitor::refusal(const Store& store) const {
  const std::lock_guard lock{mutex_};
  const Site& site = site_of(store);
  const std::string name = "store " + store.name();
  Database& database = site.store->database();
  if (const auto words = write_refusal(database)) {
    return name + " takes no writes: " + without_secrets(*words);
  }
  const auto since = since_write(database);
  if (since && *since <= times_.fresh) return {};
  if (site.busy && Clock::now() - site.began > times_.limit) {
    return name + ": a test write has not ended within " + seconds_text(times_.limit) +
           "; look at what blocks its database";
  }
  if (!site.error.empty()) return site.error;
  if (since || site.ended != Clock::time_point{}) return {};
  return name + ": it is not known yet whether it takes writes; a test write is under way";
}

/// Nothing is due while nobody asks, while messages are stored, and while a probe is under way.
WriteMonitor::Site* WriteMonitor::next_due(Clock::time_point now, Clock::time_point& wake) {
  if (now - watched_ > times_.watched) return nullptr;
  for (Site& site : sites_) {
    if (site.busy) continue;
    Clock::time_point due = site.ended == Clock::time_point{} ? now : site.ended + times_.pause;
    if (const auto since = since_write(site.store->database())) {
      due = std::max(due, now - *since + times_.pause);
    }
    if (due <= now) return &site;
    wake = std::min(wake, due);
  }
  return nullptr;
}

/// A call that hangs in its commit cannot be ended: refusal() does not wait for it.
std::string WriteMonitor::probe(const Site& site) {
  const TimeLimits::Limit limit{
      limits_, std::chrono::duration_cast<std::chrono::milliseconds>(times_.limit)};
  const StopScope scope{limit.token()};
  try {
    WorkQueue* box = nullptr;
    for (const BoxKind kind : {BoxKind::inbox, BoxKind::outbox}) {
      if (!serves(site.boxes, kind)) continue;
      box = &box_of(*site.store, kind);
      const Health health = check_health(*box, {.pending = 0, .dead = 0});
      if (health.broken) return health.reasons.front();
    }
    probe_writes(*box);
    return {};
  } catch (const std::exception& error) {
    if (limit.passed()) {
      return "store " + site.store->name() + ": a test write was given up after " +
             seconds_text(times_.limit) + "; look at what blocks its database: " + error.what();
    }
    return "store " + site.store->name() + " takes no writes: " + error.what();
  }
}

void WriteMonitor::work(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    const Clock::time_point now = Clock::now();
    Clock::time_point wake = now + std::chrono::hours{1};
    Site* site = next_due(now, wake);
    if (site == nullptr) {
      due_.wait_until(lock, stop, wake, [&, seen = changes_] { return changes_ != seen; });
      continue;
    }
    site->busy = true;
    site->began = now;
    ++site->probes;
    const std::string former = site->error;
    lock.unlock();
    const std::string error = without_secrets(probe(*site));
    if (!error.empty() && former.empty() && !stop.stop_requested()) {
      environment_.write(LogLevel::warning, "write_probe_failed",
                         {{"store", site->store->name()}, {"error", error}});
    }
    lock.lock();
    site->error = error;
    site->busy = false;
    site->ended = Clock::now();
    ++changes_;
    due_.notify_all();
  }
}

}  // namespace twinbox::app
