#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "dispatch/name_table.hpp"
#include "dispatch/then.hpp"
#include "twinbox/dispatcher.hpp"

namespace twinbox {
namespace {

/// Counts only grow and are not read together, so no memory order is needed.
class Counter {
 public:
  void add(std::uint64_t count = 1) noexcept { count_.fetch_add(count, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t read() const noexcept {
    return count_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> count_ = 0;
};

class HistogramCounter {
 public:
  void add(std::uint64_t value) noexcept {
    const auto bucket = static_cast<std::size_t>(std::bit_width(value));
    buckets_[std::min(bucket, Histogram::bucket_count - 1)].add();
    sum_.add(value);
    std::uint64_t known = largest_.load(std::memory_order_relaxed);
    while (known < value && !largest_.compare_exchange_weak(known, value)) continue;
  }
  /// A clock that steps backwards makes times below zero; they count as none.
  void add(Duration time) noexcept {
    add(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
  }
  [[nodiscard]] Histogram read() const noexcept {
    Histogram histogram;
    for (std::size_t i = 0; i < Histogram::bucket_count; ++i) {
      histogram.buckets[i] = buckets_[i].read();
      histogram.count += histogram.buckets[i];
    }
    histogram.sum = sum_.read();
    histogram.largest = largest_.load(std::memory_order_relaxed);
    return histogram;
  }

 private:
  std::array<Counter, Histogram::bucket_count> buckets_;
  Counter sum_;
  std::atomic<std::uint64_t> largest_ = 0;
};

/// Calls that were reported as slow and still run. Takes a lock only while there are some.
class SlowCalls {
 public:
  void add(const Message& message) {
    const std::scoped_lock lock{mutex_};
    calls_.insert(key_of(message));
    count_ = calls_.size();
  }
  /// It has ended, slow or not.
  void remove(const Message& message) {
    if (count_ == 0) return;
    const std::scoped_lock lock{mutex_};
    calls_.erase(key_of(message));
    count_ = calls_.size();
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::string>;
  /// The id distinguishes an outbox from an inbox, whose deliveries may have the same numbers.
  static Key key_of(const Message& message) {
    return {message.delivery_id.number(), message.epoch, message.id.str()};
  }

  std::mutex mutex_;
  std::set<Key> calls_;
  std::atomic<std::uint64_t> count_ = 0;
};

struct StoreCounters {
  Counter claimed, failed, dead, settled, lease_lost, timeouts, loop_errors;
  Counter reaped, expired, pruned, chore_failures;
  Counter handled;
  /// A separate counter: the difference of two counters that are read one after the other would
  /// include calls that began in between.
  std::atomic<std::uint64_t> in_flight = 0;
  SlowCalls slow;
  HistogramCounter claim_size, claim_time, handler_time, queue_latency, wake_latency, settle_time;

  [[nodiscard]] StoreStats read(std::string name) const {
    return {.store = std::move(name),
            .claimed = claimed.read(),
            .handled = handled.read(),
            .failed = failed.read(),
            .dead = dead.read(),
            .settled = settled.read(),
            .lease_lost = lease_lost.read(),
            .timeouts = timeouts.read(),
            .loop_errors = loop_errors.read(),
            .reaped = reaped.read(),
            .expired = expired.read(),
            .pruned = pruned.read(),
            .chore_failures = chore_failures.read(),
            .in_flight = in_flight.load(std::memory_order_relaxed),
            .slow = slow.count(),
            .claim_size = claim_size.read(),
            .claim_time = claim_time.read(),
            .handler_time = handler_time.read(),
            .queue_latency = queue_latency.read(),
            .wake_latency = wake_latency.read(),
            .settle_time = settle_time.read()};
  }
};

void count_chore(StoreCounters& counters, const ChoreReport& report) {
  if (report.end == ChoreReport::End::failed) counters.chore_failures.add();
  switch (report.chore) {
    case Chore::reap: counters.reaped.add(report.count); break;
    case Chore::expire: counters.expired.add(report.count); break;
    case Chore::prune: counters.pruned.add(report.count); break;
  }
}

struct TopicCounters {
  Counter handled, failed, dead;
};

}  // namespace

double Histogram::mean() const noexcept {
  return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count);
}

double Histogram::quantile(double share) const noexcept {
  if (count == 0) return 0.0;
  const double wanted = std::clamp(share, 0.0, 1.0) * static_cast<double>(count);
  const auto most = static_cast<double>(largest);
  double below = 0.0;
  for (std::size_t i = 0; i < bucket_count; ++i) {
    const auto here = static_cast<double>(buckets[i]);
    if (here > 0.0 && below + here >= wanted) {
      if (i == 0) return 0.0;
      const double low = std::ldexp(1.0, static_cast<int>(i) - 1);
      const double high = i + 1 == bucket_count ? std::max(low, most) : 2.0 * low;
      return std::min(low + (high - low) * (wanted - below) / here, std::max(low, most));
    }
    below += here;
  }
  return most;
}

Histogram& Histogram::operator+=(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < bucket_count; ++i) buckets[i] += other.buckets[i];
  count += other.count;
  sum += other.sum;
  largest = std::max(largest, other.largest);
  return *this;
}

StoreStats& StoreStats::operator+=(const StoreStats& other) noexcept {
  claimed += other.claimed;
  handled += other.handled;
  failed += other.failed;
  dead += other.dead;
  settled += other.settled;
  lease_lost += other.lease_lost;
  timeouts += other.timeouts;
  loop_errors += other.loop_errors;
  reaped += other.reaped;
  expired += other.expired;
  pruned += other.pruned;
  chore_failures += other.chore_failures;
  in_flight += other.in_flight;
  slow += other.slow;
  claim_size += other.claim_size;
  claim_time += other.claim_time;
  handler_time += other.handler_time;
  queue_latency += other.queue_latency;
  wake_latency += other.wake_latency;
  settle_time += other.settle_time;
  return *this;
}

class DispatchStats::State {
 public:
  explicit State(StatsLimits limits) : stores(limits.stores, other), topics(limits.topics, other) {}

  NameTable<StoreCounters> stores;
  NameTable<TopicCounters> topics;
};

DispatchStats::DispatchStats(StatsLimits limits) : state_(std::make_shared<State>(limits)) {}

DispatchStats::~DispatchStats() = default;

DispatchObserver DispatchStats::observer(DispatchObserver next) const {
  using StoreName = DispatchObserver::StoreName;
  const std::shared_ptr<State>& state = state_;
  DispatchObserver observer;
  observer.claimed = then(
      [state](StoreName store, std::size_t count, Duration took) {
        StoreCounters& counters = state->stores[store];
        counters.claimed.add(count);
        counters.claim_size.add(std::uint64_t{count});
        counters.claim_time.add(took);
      },
      std::move(next.claimed));
  observer.started = then(
      [state](StoreName store, const Message&, Duration age) {
        StoreCounters& counters = state->stores[store];
        counters.in_flight.fetch_add(1, std::memory_order_relaxed);
        counters.queue_latency.add(age);
      },
      std::move(next.started));
  observer.handled = then(
      [state](StoreName store, const Message& message, const Outcome&, Duration took) {
        StoreCounters& counters = state->stores[store];
        counters.handler_time.add(took);
        counters.handled.add();
        counters.in_flight.fetch_sub(1, std::memory_order_relaxed);
        counters.slow.remove(message);
        state->topics[message.topic.view()].handled.add();
      },
      std::move(next.handled));
  observer.failed = then(
      [state](StoreName store, const Message& message, std::string_view) {
        state->stores[store].failed.add();
        state->topics[message.topic.view()].failed.add();
      },
      std::move(next.failed));
  observer.dead = then(
      [state](StoreName store, const Message& message, std::string_view, std::string_view) {
        state->stores[store].dead.add();
        state->topics[message.topic.view()].dead.add();
      },
      std::move(next.dead));
  observer.settled = then(
      [state](StoreName store, std::size_t count, Duration took) {
        StoreCounters& counters = state->stores[store];
        counters.settled.add(count);
        counters.settle_time.add(took);
      },
      std::move(next.settled));
  observer.lease_lost = then(
      [state](StoreName store, std::size_t count) { state->stores[store].lease_lost.add(count); },
      std::move(next.lease_lost));
  observer.timed_out =
      then([state](StoreName store, const Message&) { state->stores[store].timeouts.add(); },
           std::move(next.timed_out));
  observer.slow = then([state](StoreName store, const Message& message,
                               Duration) { state->stores[store].slow.add(message); },
                       std::move(next.slow));
  observer.woken =
      then([state](StoreName store,
                   Duration latency) { state->stores[store].wake_latency.add(latency); },
           std::move(next.woken));
  observer.loop_error =
      then([state](StoreName store, std::string_view) { state->stores[store].loop_errors.add(); },
           std::move(next.loop_error));
  observer.chore =
      then([state](StoreName store,
                   const ChoreReport& report) { count_chore(state->stores[store], report); },
           std::move(next.chore));
  return observer;
}

StatsSnapshot DispatchStats::snapshot() const {
  StatsSnapshot snapshot;
  snapshot.all.store = all;
  state_->stores.for_each([&](const std::string& name, const StoreCounters& counters) {
    snapshot.stores.push_back(counters.read(name));
    snapshot.all += snapshot.stores.back();
  });
  state_->topics.for_each([&](const std::string& name, const TopicCounters& counters) {
    snapshot.topics.push_back(
        {name, counters.handled.read(), counters.failed.read(), counters.dead.read()});
  });
  return snapshot;
}

}  // namespace twinbox
