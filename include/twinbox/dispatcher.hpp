// The dispatcher: claims what is due, calls its handler, settles what became of it.
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

// What a dispatcher tells about itself while it works.

/// Told of what happens, from many threads at once; each call begins with the store's name. The
/// calls must be short and must not throw. Every member may be left empty.
struct DispatchObserver {
  using StoreName = std::string_view;

  std::function<void(StoreName, std::size_t count, Duration took)> claimed = {};
  /// A handler is about to be called; `age` is the time since the message was due.
  std::function<void(StoreName, const Message&, Duration age)> started = {};
  std::function<void(StoreName, const Message&, const Outcome&, Duration took)> handled = {};
  /// To be tried again.
  std::function<void(StoreName, const Message&, std::string_view error)> failed = {};
  std::function<void(StoreName, const Message&, std::string_view reason, std::string_view error)> dead =
      {};
  std::function<void(StoreName, std::size_t count, Duration took)> settled = {};
  /// Renewals or settles that came too late: somebody else holds the message, or it is finished.
  std::function<void(StoreName, std::size_t count)> lease_lost = {};
  std::function<void(StoreName, const Message&)> timed_out = {};
  /// A handler under run() has run for a third of its lease, or twice as long as the last time this
  /// was told. Always before its `handled`.
  std::function<void(StoreName, const Message&, Duration running)> slow = {};
  /// From a wake-up to the claim that followed it.
  std::function<void(StoreName, Duration latency)> woken = {};
  std::function<void(StoreName, std::string_view error)> loop_error = {};
  std::function<void(StoreName, const ChoreReport&)> chore = {};
};

/// What happens to a message whose topic nobody handles: neither this dispatcher nor a live worker
/// of the box that has announced it. What another one handles is left to it: postponed by 1 s, no
/// attempt counted.
enum class NoHandler { retry, dead, discard, complete };
/// What happens to a delivery under a key that nobody handles, in the same sense.
enum class UnknownKey { dead, retry };

/// Which store is next where several have something to do.
enum class PollOrder {
  round_robin,  ///< one batch from each in turn
  drain_first,  ///< stays with a store until it has nothing more
};

struct DispatcherOptions {
  int workers = 4;                                          ///< handlers that run at once
  Duration lease = default_lease;                           ///< renewed while a handler works
  std::int64_t batch = default_batch;                       ///< messages per claim
  Duration poll_interval = std::chrono::milliseconds{500};  ///< where no wake-up comes
  Duration grace =
      std::chrono::seconds{10};  ///< how long run() waits for handlers after a stop request
  NoHandler no_handler = NoHandler::retry;
  UnknownKey unknown_key = UnknownKey::dead;
  FailureHook on_failure = {};  ///< may replace the outcome of a failed call
  /// What a host lacks when nobody handles a topic, in its own words; log and error repeat it.
  std::string missing = {};
  /// How long a store rests after an error that is none of its database's; those of the database
  /// begin with 250 ms and double up to 30 s, or 4 s while it cannot be reached.
  Duration restart_delay = std::chrono::seconds{5};
  int pollers = 4;  ///< of a set of databases: stores that are claimed from at once
  /// How many dispatchers may work on a store at once, each under a named lease; 0: any number.
  int processors = 0;
  PollOrder order = PollOrder::round_robin;
  /// Reap, expire and prune, while run() works; empty: left to others.
  std::optional<HousekeepingOptions> housekeeping = HousekeepingOptions{};
};

/// Handles the messages of one box, or of one box in each of many databases. Thread-safe; one run()
/// at a time.
class Dispatcher {
 public:
  /// `queue` must outlive it. Throws std::out_of_range naming an option and its bound.
  Dispatcher(WorkQueue& queue, Handlers handlers, DispatcherOptions options = {},
             DispatchObserver observer = {});
  /// The outboxes, or the inboxes, of all stores of the set, as they come and go; `set` must
  /// outlive it. A store that cannot be reached rests on its own and holds up no other.
  Dispatcher(DatabaseSet& set, BoxKind box, Handlers handlers, DispatcherOptions options = {},
             DispatchObserver observer = {});
  /// Ends a run() that is under way as its stop token would, and waits until it and the handlers
  /// have returned. On a thread of run() itself (in a handler, say) it ends the program.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Claims once, from the store that is next, and handles what was claimed on this thread. Returns
  /// how many messages there were. Throws what that store throws; the next step goes to the next.
  std::size_t step();
  /// Steps until nothing is due in any store: the whole dispatcher without a thread or a timer, for
  /// tests. A store that throws does not keep the others from being drained; then its error is
  /// thrown.
  std::size_t drain();
  /// The same; nothing is claimed any more once a stop is requested.
  std::size_t drain(const std::stop_token& stop);

  /// Works until `stop` is requested. Then nothing new starts, what never started is released,
  /// running handlers see their stop token and get the grace period, and what has finished is
  /// settled. A handler that outlasts it keeps its lease, which is renewed until it returns; the
  /// destructor waits for it. Errors of the database are logged and tried again with backoff.
  void run(std::stop_token stop);

  /// No message is claimed while paused; what runs goes on.
  void pause();
  void resume();
  [[nodiscard]] bool paused() const noexcept;
  /// One store only. Throws UsageError when there is no such store.
  void pause_store(std::string_view store);
  void resume_store(std::string_view store);
  /// One topic, in every store: its messages are put off by 15 s, again and again, so they come
  /// within that time after the resume.
  void pause_topic(const Topic& topic);
  void resume_topic(const Topic& topic);

  /// Whom it claims for in each store, until it finds a server there with another history: from
  /// then on it uses a new token, since that server may give the same epochs again.
  [[nodiscard]] const OwnerToken& owner() const noexcept;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<DatabaseSet::Subscription> stores_;
};

// What dispatchers have done so far, in numbers: per store, over all stores, and per topic.

/// How values are spread, by powers of two. Times are in microseconds.
struct Histogram {
  static constexpr std::size_t bucket_count = 40;

  /// The first counts zeros, number i the values from 2^(i-1) to 2^i - 1, the last one whatever is
  /// above (times: 76 hours).
  std::array<std::uint64_t, bucket_count> buckets = {};
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t largest = 0;

  /// Zero when there is no value.
  [[nodiscard]] double mean() const noexcept;
  /// What a share (0 to 1) of the values does not exceed, less than a factor of two off.
  [[nodiscard]] double quantile(double share) const noexcept;
  [[nodiscard]] double p50() const noexcept { return quantile(0.50); }
  [[nodiscard]] double p99() const noexcept { return quantile(0.99); }

  Histogram& operator+=(const Histogram& other) noexcept;
};

/// Counted since the DispatchStats was made.
struct StoreStats {
  std::string store;
  std::uint64_t claimed = 0;      ///< messages
  std::uint64_t handled = 0;      ///< calls that have ended; of a batch handler, messages
  std::uint64_t failed = 0;       ///< attempts that will be repeated
  std::uint64_t dead = 0;         ///< dead letters
  std::uint64_t settled = 0;      ///< messages whose end was written down after their call
  std::uint64_t lease_lost = 0;   ///< settles that came too late: others hold the message by now
  std::uint64_t timeouts = 0;     ///< handlers that ran past theirs
  std::uint64_t loop_errors = 0;  ///< of the database, mostly; each is followed by a rest
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

/// Counts what dispatchers tell. Thread-safe; counting takes no lock (but for a name that is new)
/// and reading stops nobody.
class DispatchStats {
 public:
  static constexpr const char* all = "all";
  static constexpr const char* other = "other";

  explicit DispatchStats(StatsLimits limits = {});
  ~DispatchStats();
  DispatchStats(const DispatchStats&) = delete;
  DispatchStats& operator=(const DispatchStats&) = delete;

  /// For any number of dispatchers. Each call is counted and then handed on to `next`. May be used
  /// longer than this object lives.
  [[nodiscard]] DispatchObserver observer(DispatchObserver next = {}) const;

  /// Each number is exact; numbers that belong together may differ by what happens meanwhile.
  [[nodiscard]] StatsSnapshot snapshot() const;

 private:
  class State;
  std::shared_ptr<State> state_;  ///< shared with the observers
};

}  // namespace twinbox
