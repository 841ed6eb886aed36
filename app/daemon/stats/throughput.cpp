#include "daemon/stats/throughput.hpp"

#include <algorithm>

namespace twinbox::app {
namespace {

constexpr std::chrono::seconds slot_length{10};

void add_time(Histogram& histogram, std::uint64_t microseconds) {
  std::size_t bucket = 0;
  for (std::uint64_t rest = microseconds; rest > 0; rest >>= 1) ++bucket;
  ++histogram.buckets[std::min(bucket, Histogram::bucket_count - 1)];
  ++histogram.count;
  histogram.sum += microseconds;
  histogram.largest = std::max(histogram.largest, microseconds);
}

/// Calls `first` and then `next`, if there is one.
template <class First, class... Args>
std::function<void(Args...)> then(First first, std::function<void(Args...)> next) {
  if (!next) return first;
  return [first = std::move(first), next = std::move(next)](Args... args) {
    first(args...);
    next(args...);
  };
}

}  // namespace

Throughput::Throughput(Clock clock) : clock_(std::move(clock)), started_(clock_()) {}

Throughput::Slot Throughput::now() const { return (clock_() - started_) / slot_length; }

void Throughput::Window::add(Slot slot, std::uint32_t more_done, std::uint32_t more_failed) {
  for (Slot i = std::max(newest + 1, slot - slot_count + 1); i <= slot; ++i) {
    done[static_cast<std::size_t>(i % slot_count)] = 0;
    failed[static_cast<std::size_t>(i % slot_count)] = 0;
  }
  newest = std::max(newest, slot);
  done[static_cast<std::size_t>(slot % slot_count)] += more_done;
  failed[static_cast<std::size_t>(slot % slot_count)] += more_failed;
}

void Throughput::StoreThroughput::add(Slot slot, std::uint32_t more_done,
                                      std::uint32_t more_failed) {
  window.add(slot, more_done, more_failed);
  total.done += more_done;
  total.failed += more_failed;
}

/// A minute is the current slot and up to five slots before it.
Rates Throughput::Window::rates(Slot slot, double seconds_in_slot) const {
  const auto sum = [&](const auto& counts, Slot slots) {
    std::uint64_t total = 0;
    for (Slot i = std::max(slot - slots + 1, newest - slot_count + 1); i <= newest; ++i) {
      if (i >= 0) total += counts[static_cast<std::size_t>(i % slot_count)];
    }
    return static_cast<double>(total);
  };
  const auto full = static_cast<double>(std::min<Slot>(5, slot));
  const double seconds = std::max(10.0, 10 * full + seconds_in_slot);
  const double ended = sum(done, slot_count) + sum(failed, slot_count);
  Rates rates{.done_per_minute = sum(done, 6) * 60 / seconds,
              .failed_per_minute = sum(failed, 6) * 60 / seconds};
  if (ended > 0) rates.error_rate = sum(failed, slot_count) / ended;
  return rates;
}

Rates Throughput::rates(const Window& window) const {
  const auto age = clock_() - started_;
  const Slot slot = age / slot_length;
  const std::chrono::duration<double> in_slot = age - slot * slot_length;
  return window.rates(slot, in_slot.count());
}

void Throughput::count(BoxKind kind, std::string_view store, const Message& message, bool failed) {
  const Slot slot = now();
  const std::uint32_t more_failed = failed ? 1 : 0;
  const std::uint32_t more_done = 1 - more_failed;
  const std::lock_guard lock{mutex_};
  BoxThroughput& of_kind = of(kind);
  of_kind.all.add(slot, more_done, more_failed);
  of_kind.stores[std::string{store}].add(slot, more_done, more_failed);
  std::pair key{std::string{store}, message.topic.str()};
  const auto topic = of_kind.topics.find(key);
  if (topic != of_kind.topics.end()) {
    topic->second.add(slot, more_done, more_failed);
  } else if (of_kind.topics.size() < max_topics) {
    of_kind.topics[std::move(key)].add(slot, more_done, more_failed);
  }
}

void Throughput::add_workers(BoxKind kind, const std::string& store,
                             const std::vector<Worker>& workers,
                             const std::vector<OwnerToken>& own) {
  const Slot slot = now();
  const std::lock_guard lock{mutex_};
  for (const OwnerToken& owner : own) own_owners_.insert(owner.uuid());
  BoxThroughput& of_kind = of(kind);
  // Work before the first observation by this daemon belongs to no minute.
  const bool first = !of_kind.seen.contains(store);
  std::map<Uuid, SeenCounts>& former = of_kind.seen[store];
  std::map<Uuid, SeenCounts> seen;
  for (const Worker& worker : workers) {
    const Uuid owner = worker.owner.uuid();
    seen[owner] = {worker.done, worker.failed};
    if (first || own_owners_.contains(owner)) continue;
    const SeenCounts before = former[owner];
    const auto more = [](std::int64_t now, std::int64_t then) {
      return static_cast<std::uint32_t>(std::max<std::int64_t>(0, now - then));
    };
    const std::uint32_t done = more(worker.done, before.done);
    const std::uint32_t failed = more(worker.failed, before.failed);
    of_kind.all.add(slot, done, failed);
    of_kind.stores[store].add(slot, done, failed);
  }
  former = std::move(seen);
}

void Throughput::count_time(BoxKind kind, std::string_view store, Duration took) {
  const auto microseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(0, took.count()));
  const Slot slot = now();
  const std::lock_guard lock{mutex_};
  BoxThroughput& of_kind = of(kind);
  add_time(of_kind.all.total.handler_times, microseconds);
  add_time(of_kind.stores[std::string{store}].total.handler_times, microseconds);
  for (Slot i = std::max(of_kind.newest + 1, slot - slot_count + 1); i <= slot; ++i) {
    of_kind.times[static_cast<std::size_t>(i % slot_count)] = {};
  }
  of_kind.newest = std::max(of_kind.newest, slot);
  add_time(of_kind.times[static_cast<std::size_t>(slot % slot_count)], microseconds);
}

DispatchObserver Throughput::observer(BoxKind kind, DispatchObserver next) {
  DispatchObserver observer = std::move(next);
  observer.handled = then(
      [this, kind](std::string_view store, const Message& message, const Outcome& outcome,
                   Duration took) {
        count_time(kind, store, took);
        if (outcome.kind() == Outcome::Kind::done) count(kind, store, message, false);
      },
      std::move(observer.handled));
  observer.failed = then([this, kind](std::string_view store, const Message& message,
                                      std::string_view) { count(kind, store, message, true); },
                         std::move(observer.failed));
  observer.dead =
      then([this, kind](std::string_view store, const Message& message, std::string_view,
                        std::string_view) { count(kind, store, message, true); },
           std::move(observer.dead));
  observer.chore = then(
      [this, kind](std::string_view store, const ChoreReport& report) {
        const std::lock_guard lock{mutex_};
        chores_.insert_or_assign(
            std::tuple{kind, std::string{store}, report.chore},
            ChoreView{kind, std::string{store}, std::chrono::system_clock::now(), report});
      },
      std::move(observer.chore));
  return observer;
}

Rates Throughput::rates(BoxKind kind) const {
  const std::lock_guard lock{mutex_};
  return rates(of(kind).all.window);
}

Rates Throughput::rates(BoxKind kind, const std::string& store) const {
  const std::lock_guard lock{mutex_};
  const auto found = of(kind).stores.find(store);
  return found == of(kind).stores.end() ? Rates{} : rates(found->second.window);
}

std::map<std::string, Rates> Throughput::topics(BoxKind kind, const std::string& store) const {
  std::map<std::string, Rates> out;
  const std::lock_guard lock{mutex_};
  const auto& topics = of(kind).topics;
  for (auto at = topics.lower_bound({store, ""}); at != topics.end() && at->first.first == store;
       ++at) {
    out.emplace(at->first.second, rates(at->second));
  }
  return out;
}

Histogram Throughput::handler_times(BoxKind kind) const {
  const Slot slot = now();
  Histogram sum;
  const std::lock_guard lock{mutex_};
  const BoxThroughput& of_kind = of(kind);
  for (Slot i = std::max<Slot>(0, slot - slot_count + 1); i <= of_kind.newest; ++i) {
    sum += of_kind.times[static_cast<std::size_t>(i % slot_count)];
  }
  return sum;
}

Throughput::Total Throughput::total(BoxKind kind, const std::string& store) const {
  const std::lock_guard lock{mutex_};
  const BoxThroughput& of_kind = of(kind);
  if (store.empty()) return of_kind.all.total;
  const auto found = of_kind.stores.find(store);
  return found == of_kind.stores.end() ? Total{} : found->second.total;
}

std::vector<Throughput::ChoreView> Throughput::chores() const {
  std::vector<ChoreView> list;
  const std::lock_guard lock{mutex_};
  for (const auto& [key, view] : chores_) list.push_back(view);
  return list;
}

}  // namespace twinbox::app
