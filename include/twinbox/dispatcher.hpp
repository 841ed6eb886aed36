// The dispatcher: claims what is due, calls its handler, settles what became of it.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "twinbox/database_set.hpp"
#include "twinbox/handler.hpp"
#include "twinbox/housekeeping.hpp"
#include "twinbox/observer.hpp"
#include "twinbox/schema.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

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

}  // namespace twinbox
