#include "daemon/store/write_monitor.hpp"

#include <algorithm>

#include "daemon/config/secrets.hpp"
#include <twinbox/database.hpp>
#include <twinbox/health.hpp>

namespace twinbox::app {
namespace {

constexpr std::size_t min_threads = 8;
/// The number of probes that may hang in a commit, which cannot be cancelled.
constexpr std::size_t max_threads = 64;

std::string seconds_text(WriteMonitor::Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
         " ms";
}

}  // namespace

WriteMonitor::WriteMonitor(const Stores& stores, Environment environment, Times times)
    : environment_(std::move(environment)), times_(times) {
  for (const Stores::ServedStore& entry : stores.all()) {
    stores_.push_back({.store = entry.store.get(), .boxes = entry.boxes});
  }
}

WriteMonitor::~WriteMonitor() { stop(); }

void WriteMonitor::mark_unreachable(const Store& store, const std::string& error) {
  const std::lock_guard lock{mutex_};
  for (MonitoredStore& monitored_store : stores_) {
    if (monitored_store.store == &store) monitored_store.error = without_secrets(error);
  }
}

void WriteMonitor::start() {
  const std::lock_guard lock{mutex_};
  watched_ = Clock::now();
  stopped_ = false;
  add_threads();
}

/// A hanging probe keeps its thread; another thread continues with the other stores.
void WriteMonitor::add_threads() {
  const Clock::time_point now = Clock::now();
  const auto hanging = static_cast<std::size_t>(
      std::ranges::count_if(stores_, [&](const MonitoredStore& monitored_store) {
        return monitored_store.busy && now - monitored_store.began > times_.limit;
      }));
  const std::size_t wanted = std::min({min_threads + hanging, max_threads, stores_.size()});
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

const WriteMonitor::MonitoredStore& WriteMonitor::monitored(const Store& store) const {
  return *std::ranges::find(stores_, &store, &MonitoredStore::store);
}

std::uint64_t WriteMonitor::probes(const Store& store) const {
  const std::lock_guard lock{mutex_};
  return monitored(store).probes;
}

std::optional<std::string> WriteMonitor::refusal(const Store& store) const {
  const std::lock_guard lock{mutex_};
  const MonitoredStore& monitored_store = monitored(store);
  const std::string name = "store " + store.name();
  Database& database = monitored_store.store->database();
  if (const auto words = write_refusal(database)) {
    return name + " cannot accept writes: " + without_secrets(*words);
  }
  const auto since = since_write(database);
  if (since && *since <= times_.fresh) return {};
  if (monitored_store.busy && Clock::now() - monitored_store.began > times_.limit) {
    return name + ": a test write has not finished within " + seconds_text(times_.limit) +
           "; check what blocks its database";
  }
  if (!monitored_store.error.empty()) return monitored_store.error;
  if (since || monitored_store.ended != Clock::time_point{}) return {};
  return name + ": waiting for a test write to finish; retry";
}

/// Nothing is due without readiness requests, while messages are stored, or while a probe is
/// running.
WriteMonitor::MonitoredStore* WriteMonitor::next_due(Clock::time_point now,
                                                     Clock::time_point& wake) {
  if (now - watched_ > times_.watched) return nullptr;
  for (MonitoredStore& monitored_store : stores_) {
    if (monitored_store.busy) continue;
    Clock::time_point due =
        monitored_store.ended == Clock::time_point{} ? now : monitored_store.ended + times_.pause;
    if (const auto since = since_write(monitored_store.store->database())) {
      due = std::max(due, now - *since + times_.pause);
    }
    if (due <= now) return &monitored_store;
    wake = std::min(wake, due);
  }
  return nullptr;
}

/// A call that hangs in its commit cannot be cancelled: refusal() does not wait for it.
std::string WriteMonitor::probe(const MonitoredStore& monitored_store) {
  const TimeLimits::Limit limit{
      limits_, std::chrono::duration_cast<std::chrono::milliseconds>(times_.limit)};
  const StopScope scope{limit.token()};
  try {
    WorkQueue* box = nullptr;
    for (const BoxKind kind : {BoxKind::inbox, BoxKind::outbox}) {
      if (!serves(monitored_store.boxes, kind)) continue;
      box = &box_of(*monitored_store.store, kind);
      const Health health = check_health(*box, {.pending = 0, .dead = 0});
      if (health.broken) return health.reasons.front();
    }
    probe_writes(*box);
    return {};
  } catch (const std::exception& error) {
    if (limit.passed()) {
      return "store " + monitored_store.store->name() + ": a test write was cancelled after " +
             seconds_text(times_.limit) + "; check what blocks its database: " + error.what();
    }
    return "store " + monitored_store.store->name() + " cannot accept writes: " + error.what();
  }
}

void WriteMonitor::work(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    const Clock::time_point now = Clock::now();
    Clock::time_point wake = now + std::chrono::hours{1};
    MonitoredStore* monitored_store = next_due(now, wake);
    if (monitored_store == nullptr) {
      due_.wait_until(lock, stop, wake, [&, seen = changes_] { return changes_ != seen; });
      continue;
    }
    monitored_store->busy = true;
    monitored_store->began = now;
    ++monitored_store->probes;
    const std::string former = monitored_store->error;
    lock.unlock();
    const std::string error = without_secrets(probe(*monitored_store));
    if (!error.empty() && former.empty() && !stop.stop_requested()) {
      environment_.write(LogLevel::warning, "write_probe_failed",
                         {{"store", monitored_store->store->name()}, {"error", error}});
    }
    lock.lock();
    monitored_store->error = error;
    monitored_store->busy = false;
    monitored_store->ended = Clock::now();
    ++changes_;
    due_.notify_all();
  }
}

}  // namespace twinbox::app
