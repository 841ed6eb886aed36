// The dispatcher: claims due deliveries, calls their handlers, settles the outcomes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/handler.hpp"
#include "twinbox/housekeeping.hpp"
#include "twinbox/schema.hpp"
#include "twinbox/stores.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

// Events that a dispatcher reports while it works.

/// Called from many threads at once; the first argument is the store's name. The calls must be
/// short and must not throw. Every member may be left empty.
struct DispatchObserver {
  using StoreName = std::string_view;

  std::function<void(StoreName, std::size_t count, Duration took)> claimed = {};
  /// Called before a handler; `age` is the time since the message was due.
  std::function<void(StoreName, const Message&, Duration age)> started = {};
  std::function<void(StoreName, const Message&, const Outcome&, Duration took)> handled = {};
  /// A failed attempt that will be retried.
  std::function<void(StoreName, const Message&, std::string_view error)> failed = {};
  std::function<void(StoreName, const Message&, std::string_view reason, std::string_view error)>
      dead = {};
  std::function<void(StoreName, std::size_t count, Duration took)> settled = {};
  /// Renewals or settles that came too late: another worker holds the message, or it is finished.
  std::function<void(StoreName, std::size_t count)> lease_lost = {};
  std::function<void(StoreName, const Message&)> timed_out = {};
  /// A handler under run() has run for a third of its lease, or twice as long as at the previous
  /// call of this member. Always before its `handled`.
  std::function<void(StoreName, const Message&, Duration running)> slow = {};
  /// From a wake-up to the claim that follows it.
  std::function<void(StoreName, Duration latency)> woken = {};
  std::function<void(StoreName, std::string_view error)> loop_error = {};
  std::function<void(StoreName, const ChoreReport&)> chore = {};
};

/// What to do with a message whose topic has no handler, neither in this dispatcher nor in a live
/// worker of the box that has announced one. A message that another worker handles is postponed by
/// 1 s without counting an attempt.
enum class NoHandler { retry, dead, discard, complete };
/// The same for a delivery whose key has no handler.
enum class UnknownKey { dead, retry };

/// Which store is next when several have due deliveries.
enum class PollOrder {
  round_robin,  ///< one batch from each in turn
  drain_first,  ///< stays with a store until nothing is due there
};

struct DispatcherOptions {
  int workers = 4;                                          ///< handlers that run at once
  Duration lease = default_lease;                           ///< renewed while a handler works
  std::int64_t batch = default_batch;                       ///< messages per claim
  Duration poll_interval = std::chrono::milliseconds{500};  ///< without a wake-up
  Duration grace =
      std::chrono::seconds{10};  ///< how long run() waits for handlers after a stop request
  NoHandler no_handler = NoHandler::retry;
  UnknownKey unknown_key = UnknownKey::dead;
  FailureHook on_failure = {};  ///< may replace the outcome of a failed call
  /// The host's own hint on what to configure when a topic has no handler; log and error repeat it.
  std::string missing = {};
  /// How long a store pauses after an error that is not its database's. Pauses after database
  /// errors start at 250 ms and double up to 30 s, or 4 s while the database is unreachable.
  Duration restart_delay = std::chrono::seconds{5};
  int pollers = 4;  ///< of a set of databases: stores to claim from at once
  /// How many dispatchers may work on a store at once, each under a named lease; 0: any number.
  int processors = 0;
  PollOrder order = PollOrder::round_robin;
  /// Reaps, expires and prunes while run() works; empty: other processes do.
  std::optional<HousekeepingOptions> housekeeping = HousekeepingOptions{};
};

/// Handles the messages of one box, or of one box in each of many databases. Thread-safe; one run()
/// at a time.
class Dispatcher {
 public:
  /// `queue` must outlive it. Throws std::out_of_range naming an option and its bound.
  Dispatcher(WorkQueue& queue, Handlers handlers, DispatcherOptions options = {},
             DispatchObserver observer = {});
  /// Works on the outboxes, or the inboxes, of all stores of the set as they are added and removed;
  /// `set` must outlive it. An unreachable store backs off alone and delays no other.
  Dispatcher(DatabaseSet& set, BoxKind box, Handlers handlers, DispatcherOptions options = {},
             DispatchObserver observer = {});
  /// Ends a running run() as its stop token would, and waits until run() and the handlers have
  /// returned. On a thread of run() itself (in a handler, for example) it ends the program.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Claims one batch from the next store and handles it on this thread. Returns how many messages
  /// it handled. Throws the store's error; the next step goes to the next store.
  std::size_t step();
  /// Steps until nothing is due in any store: a dispatcher without threads or timers, for tests. A
  /// store that throws does not keep the others from being drained; drain() throws its error
  /// afterwards.
  std::size_t drain();
  /// The same; claims nothing more once a stop is requested.
  std::size_t drain(const std::stop_token& stop);

  /// Works until `stop` is requested. Then nothing new starts, unstarted deliveries are released,
  /// running handlers see their stop token and get the grace period, and finished outcomes are
  /// settled. A handler that outlasts it keeps its lease, which is renewed until it returns; the
  /// destructor waits for it. Database errors are logged and retried with backoff.
  void run(std::stop_token stop);

  /// A paused dispatcher claims no message; running handlers continue.
  void pause();
  void resume();
  [[nodiscard]] bool paused() const noexcept;
  /// One store only. Throws UsageError when there is no such store.
  void pause_store(std::string_view store);
  void resume_store(std::string_view store);
  /// One topic, in every store: its messages are postponed by 15 s repeatedly, so they run within
  /// that time after the resume.
  void pause_topic(const Topic& topic);
  void resume_topic(const Topic& topic);

  /// The token that it claims with in each store, until it finds a server with another history:
  /// then it uses a new token, since that server may issue the same epochs again.
  [[nodiscard]] const OwnerToken& owner() const noexcept;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<DatabaseSet::Subscription> stores_;
};

// Dispatcher statistics, in numbers: per store, over all stores, and per topic.

/// A distribution of values, by powers of two. Times are in microseconds.
struct Histogram {
  static constexpr std::size_t bucket_count = 40;

  /// Bucket 0 counts zeros, bucket i the values from 2^(i-1) to 2^i - 1, and the last one all
  /// larger values (times: above 76 hours).
  std::array<std::uint64_t, bucket_count> buckets = {};
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t largest = 0;

  /// Zero without values.
  [[nodiscard]] double mean() const noexcept;
  /// The value that a share (0 to 1) of the values does not exceed, accurate to a factor of two.
  [[nodiscard]] double quantile(double share) const noexcept;
  [[nodiscard]] double p50() const noexcept { return quantile(0.50); }
  [[nodiscard]] double p99() const noexcept { return quantile(0.99); }

  Histogram& operator+=(const Histogram& other) noexcept;
};

/// Counted since the DispatchStats was created.
struct StoreStats {
  std::string store;
  std::uint64_t claimed = 0;      ///< messages
  std::uint64_t handled = 0;      ///< calls that have ended; of a batch handler, messages
  std::uint64_t failed = 0;       ///< attempts that will be retried
  std::uint64_t dead = 0;         ///< dead letters
  std::uint64_t settled = 0;      ///< messages whose outcome was stored after their call
  std::uint64_t lease_lost = 0;   ///< settles that came too late: another worker holds the message
  std::uint64_t timeouts = 0;     ///< handlers that exceeded their timeout
  std::uint64_t loop_errors = 0;  ///< database errors, mostly; a backoff follows each
  std::uint64_t reaped = 0, expired = 0, pruned = 0;  ///< rows, by the dispatcher's housekeeping
  std::uint64_t chore_failures = 0;
  std::uint64_t in_flight = 0;  ///< messages whose handler runs now
  std::uint64_t slow = 0;       ///< of these, handlers that have run for a third of their lease
  Histogram claim_size = {};    ///< messages per claim that found any
  Histogram claim_time = {};
  Histogram handler_time = {};
  Histogram queue_latency = {};  ///< from the moment it was due to the call of its handler
  Histogram wake_latency = {};   ///< from a wake-up to the end of the claim that followed
  Histogram settle_time = {};    ///< per transaction

  /// All but the name.
  StoreStats& operator+=(const StoreStats& other) noexcept;
};

struct TopicStats {
  std::string topic;
  std::uint64_t handled = 0, failed = 0, dead = 0;
};

struct StatsSnapshot {
  StoreStats all;                  ///< under the name `all`
  std::vector<StoreStats> stores;  ///< by name
  std::vector<TopicStats> topics;  ///< over all stores, by name
};

/// Names beyond these limits are counted together, under `other`.
struct StatsLimits {
  std::size_t stores = 10'000;
  std::size_t topics = 200;
};

/// Counts the events of dispatchers. Thread-safe; counting takes no lock (except for a new name),
/// and reading blocks no other thread.
class DispatchStats {
 public:
  static constexpr const char* all = "all";
  static constexpr const char* other = "other";

  explicit DispatchStats(StatsLimits limits = {});
  ~DispatchStats();
  DispatchStats(const DispatchStats&) = delete;
  DispatchStats& operator=(const DispatchStats&) = delete;

  /// For any number of dispatchers. Counts each call and forwards it to `next`. May be used longer
  /// than this object lives.
  [[nodiscard]] DispatchObserver observer(DispatchObserver next = {}) const;

  /// Each number is exact; related numbers may differ by events that happen during the call.
  [[nodiscard]] StatsSnapshot snapshot() const;

 private:
  class State;
  std::shared_ptr<State> state_;  ///< shared with the observers
};

}  // namespace twinbox
