// Healthy stores and stores that hang, under one dispatcher.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/set_test.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {

/// The stores are called by a prefix and a number. A store that hangs never ends a call by itself.
class HangingStores : public SetTest {
 protected:
  static constexpr int store_count = 50;

  ~HangingStores() override { stop(); }

  static std::string name_of(const std::string& prefix, int number) {
    return prefix + "_" + std::to_string(number);
  }
  StoreDefinition& add(StoreDefinition definition) {
    return definitions_.emplace_back(std::move(definition));
  }
  /// In files: tables are made faster there than on a server.
  void add_working(const std::string& prefix, int count = store_count) {
    for (int i = 0; i < count; ++i) add(define(name_of(prefix, i), Backend::sqlite_file));
  }
  /// Of what has been added so far.
  DatabaseSet& set() {
    if (!set_) {
      Environment environment = on_real_time();
      environment.log_level = LogLevel::info;
      environment.timing = [this](std::string_view statement, auto, auto) { count(statement); };
      set_.emplace(definitions_, DatabaseSetOptions{.connections_per_server = per_server_},
                   environment);
    }
    return *set_;
  }
  /// Before the set is used.
  void allow_connections(std::size_t per_server) { per_server_ = per_server; }
  void enqueue(const std::string& prefix, int count = store_count) {
    for (int i = 0; i < count; ++i) {
      set().find(name_of(prefix, i))->outbox().enqueue(a_message("order.placed"));
      const std::scoped_lock lock{mutex_};
      committed_[name_of(prefix, i)] = Clock::now();
    }
  }

  using Clock = std::chrono::steady_clock;
  using Latency = std::chrono::microseconds;
  /// The median time from the commit of a message to the end of its handler. The stores have
  /// handled `before` messages each. Empty: one of them has not handled a message in time.
  std::optional<Latency> median_latency(const std::string& prefix, int before, int rounds) {
    std::vector<Latency> samples;
    for (int round = 1; round <= rounds; ++round) {
      enqueue(prefix);
      if (!all_handled(prefix, before + round)) return std::nullopt;
      const std::scoped_lock lock{mutex_};
      for (int i = 0; i < store_count; ++i) {
        const std::string store = name_of(prefix, i);
        samples.push_back(std::chrono::duration_cast<Latency>(
            std::max(handled_at_[store] - committed_[store], Clock::duration{0})));
      }
    }
    const auto middle = samples.begin() + std::ssize(samples) / 2;
    std::nth_element(samples.begin(), middle, samples.end());
    return *middle;
  }
  /// Whether stores that hang delay the others must not depend on how many they are.
  void expect_no_delay(std::optional<Latency> with_none, std::optional<Latency> with_hanging) {
    ASSERT_TRUE(with_none && with_hanging) << "a healthy store was not handled";
    RecordProperty("median_with_none_us", std::to_string(with_none->count()));
    RecordProperty("median_with_hanging_us", std::to_string(with_hanging->count()));
    EXPECT_LE(*with_hanging, 5 * *with_none + 500ms);
  }

  DispatchObserver watching() {
    DispatchObserver observer;
    observer.handled = [this](std::string_view store, const Message&, const Outcome&, Duration) {
      {
        const std::scoped_lock lock{mutex_};
        handled_at_[std::string{store}] = Clock::now();
      }
      note(handled_, store);
    };
    observer.chore = [this](std::string_view store, const ChoreReport&) { note(chores_, store); };
    observer.lease_lost = [this](std::string_view store, std::size_t) { note(lost_, store); };
    observer.claimed = [this](std::string_view store, std::size_t, Duration) {
      note(claimed_, store);
      if (at_claim_) at_claim_(store);
    };
    return observer;
  }
  /// Called in each visit that has claimed something: before the start.
  void at_claim(std::function<void(std::string_view store)> what) { at_claim_ = std::move(what); }
  void start(Handlers handlers = one_handler(), DispatcherOptions options = without_chores()) {
    options.grace = 0s;
    dispatcher_.emplace(set(), BoxKind::outbox, std::move(handlers), options, watching());
    thread_ = std::jthread{[this](const std::stop_token& stop) { dispatcher_->run(stop); }};
  }
  void stop() {
    thread_ = {};
    dispatcher_.reset();
  }
  /// Stores that are added from now on belong to the next set.
  void forget_set() {
    stop();
    set_.reset();
  }
  /// Of the run that was started.
  Dispatcher& dispatcher() { return *dispatcher_; }
  static Handlers one_handler() {
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [](const Message&) {});
    return handlers;
  }
  static DispatcherOptions without_chores() { return {.housekeeping = std::nullopt}; }

  /// True once every store has handled so many; false when one has not after two minutes.
  bool all_handled(const std::string& prefix, int times, int count = store_count) {
    return reached([&] { return reached_by_all(handled_, prefix, times, count); });
  }
  int handled(const std::string& prefix) { return sum(handled_, prefix); }
  int lost(const std::string& prefix) { return sum(lost_, prefix); }
  /// How often a statement has run, in any store.
  int statements(const std::string& name) {
    const std::scoped_lock lock{mutex_};
    return statements_[name];
  }
  int chores(const std::string& store) {
    const std::scoped_lock lock{mutex_};
    return chores_[store];
  }
  template <class Condition>
  bool reached(Condition condition) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 120s, condition);
  }
  using Counts = std::map<std::string, int, std::less<>>;
  // Under reached() only.
  Counts handled_;
  Counts claimed_;  ///< visits that have claimed something
  Counts chores_;
  Counts statements_;

 private:
  static bool reached_by_all(Counts& counts, const std::string& prefix, int times, int stores) {
    for (int i = 0; i < stores; ++i) {
      if (counts[name_of(prefix, i)] < times) return false;
    }
    return true;
  }
  int sum(const Counts& counts, const std::string& prefix) {
    const std::scoped_lock lock{mutex_};
    int total = 0;
    for (const auto& [store, number] : counts) total += store.starts_with(prefix) ? number : 0;
    return total;
  }
  void note(Counts& counts, std::string_view name) {
    const std::scoped_lock lock{mutex_};
    ++counts[std::string{name}];
    changed_.notify_all();
  }
  void count(std::string_view statement) { note(statements_, statement); }

  std::vector<StoreDefinition> definitions_;
  std::size_t per_server_ = 120;
  std::map<std::string, Clock::time_point> committed_;
  std::map<std::string, Clock::time_point> handled_at_;
  std::function<void(std::string_view)> at_claim_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Counts lost_;
  std::optional<DatabaseSet> set_;
  std::optional<Dispatcher> dispatcher_;
  std::jthread thread_;
};

}  // namespace twinbox::test
