// One box of a dispatcher: claims, renews and settles its deliveries, and schedules the next poll.
// It decides and talks to the database; the threads are the dispatcher's.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "database/wake.hpp"
#include "dispatch/call.hpp"
#include "dispatch/lost_claim_timer.hpp"
#include "dispatch/settle.hpp"
#include "dispatch/store_call.hpp"
#include "dispatch/task.hpp"
#include "dispatch/watcher.hpp"
#include "dispatch/worker_heartbeat.hpp"
#include "queue/claimed.hpp"
#include "twinbox/housekeeping.hpp"

namespace twinbox {

/// The result of the last visit to a store.
enum class StoreHealth { works, untried, failing };
inline constexpr std::array every_store_health{StoreHealth::works, StoreHealth::untried,
                                               StoreHealth::failing};
/// A commit takes some ms, and a claim from a long queue some tens.
inline constexpr StoreCall::Limits visit_limits{.brief = std::chrono::milliseconds{100},
                                                .interrupt_after = std::chrono::milliseconds{250}};
/// A chore works in batches, and an interrupted one continues later.
inline constexpr StoreCall::Limits chore_limits{.brief = std::chrono::seconds{1},
                                                .interrupt_after = std::chrono::seconds{10}};

/// The source of a poller's box. Opening may fail and is then retried.
struct QueueOpener {
  const void* key;  ///< the key for removing it
  std::string store;
  std::function<std::shared_ptr<WorkQueue>()> open;
};

/// The same for all box_pollers of a dispatcher.
struct BoxPollerContext {
  const Handlers& handlers;
  const DispatcherOptions& options;
  const DispatchObserver& observer;
  OwnerToken owner;
  const Environment& environment;
  const std::string& announcement;
  const std::atomic<int>& box_pollers;  ///< how many there are
};

/// The server is another one than the one that was claimed from, or an earlier state of it: it may
/// issue the same epochs again. Nothing has been leased; a poller with another owner can claim.
class ServerChanged : public DatabaseError {
 public:
  explicit ServerChanged(const std::string& message) : DatabaseError(Kind::cancelled, message) {}
};

/// One visit at a time, and in parallel one call that only settles.
class BoxPoller : public std::enable_shared_from_this<BoxPoller> {
 public:
  BoxPoller(QueueOpener source, const BoxPollerContext& parts);
  ~BoxPoller();

  [[nodiscard]] const std::string& store() const noexcept { return source_.store; }
  [[nodiscard]] const void* key() const noexcept { return source_.key; }
  /// The same for another owner, from the beginning.
  [[nodiscard]] std::shared_ptr<BoxPoller> successor(const OwnerToken& owner) const;

  /// Opens the box on first use. Thread-safe.
  WorkQueue& queue();
  /// Null: not open yet. Thread-safe.
  [[nodiscard]] WorkQueue* opened();
  /// Once the box is open.
  [[nodiscard]] const Caller& caller() const noexcept { return *caller_; }

  /// From now on `call` is called when deliveries may have been added; with true when another
  /// process added them.
  void listen(const std::function<void(bool remote)>& call);
  /// `polite`: also removes this worker from the store.
  void stop_listening(bool polite);

  /// Sends the worker's heartbeat when it is due.
  void send_heartbeat(bool in_haste) { heartbeat_.send(queue(), parts_.box_pollers, in_haste); }
  /// Removes this worker from the store.
  void leave();
  [[nodiscard]] Clock::time_point next_heartbeat() const noexcept { return heartbeat_.next(); }

  /// For a box with a limited number of processes: acquires a slot, and keeps it. False: all slots
  /// are taken, or the slot was lost since the last call.
  bool hold_slot();
  [[nodiscard]] bool has_slot() const;
  /// When to call hold_slot() again.
  [[nodiscard]] Clock::time_point next_try() const noexcept { return next_try_; }

  /// One claim, for a step by hand. Thread-safe.
  std::vector<Message> claim_once(std::int64_t limit);
  /// Settles messages and claims up to `limit` new ones (0: none), in one transaction when both are
  /// needed. A settlement that the database refuses while it takes others is reported and given up.
  /// When it throws, `settlements` are the unsettled ones; otherwise none.
  std::vector<Message> settle_and_claim(std::vector<Settlement>& settlements, std::int64_t limit);
  /// A claim has failed, and it is time to check what it has leased. Thread-safe.
  [[nodiscard]] bool may_have_lost_claims() const { return lost_claim_timer_.asks_now(); }
  /// Releases the leases of failed claims: all except `in_hand`.
  void release_lost(const std::vector<Lease>& in_hand);
  /// Thread-safe.
  void write_down(std::vector<Settlement>& settlements);
  /// Settling in parallel to a claim is possible. Once the box is open.
  [[nodiscard]] bool writes_in_parallel() const;
  /// The leases of unsettled messages have ended: the next claim takes them over.
  void give_up(std::vector<Settlement>& settlements, std::string_view why) const;
  /// Extends these leases. Returns those that are lost, or have been marked meanwhile.
  std::vector<SharedTask> renew(const std::vector<SharedTask>& tasks);

  /// All workers are busy: logs it when deliveries have waited for at least `bound`.
  bool log_if_full(Duration bound);

  /// When the next scheduled claim is due.
  [[nodiscard]] Clock::time_point next_look() const noexcept { return next_look_; }
  /// Deliveries may have been added since `call`. After commits of another process more may follow
  /// without a notification.
  void look_now(Clock::time_point call, bool remote) noexcept;

  /// How long it backs off after an error: longer each time, until a success. `cut_short`: the
  /// error is that another store needed the thread.
  Duration backoff_after(const std::exception& error, bool cut_short = false);
  void works() noexcept { failures_ = 0; }

  // The dispatcher owns the following members and guards them by its lock.
  std::vector<SharedTask> held = {};                ///< claimed, waiting or running
  std::vector<Settlement> finished = {};            ///< to be settled
  Clock::time_point at = Clock::time_point::max();  ///< the time of the next visit
  Clock::time_point called_at = {};
  std::atomic<Clock::time_point> committed_at =
      Clock::time_point{};             ///< of the last commit, by anyone
  Clock::time_point answered_at = {};  ///< its last visit that succeeded
  std::atomic<bool> called = false;    ///< a wake-up waits for its poll
  std::atomic<bool> called_remotely = false;
  Clock::time_point next_renewal = {};
  bool busy = false;      ///< a thread visits it now
  bool writing = false;   ///< a thread settles in parallel to the visits
  int calls = 0;          ///< of handlers, in flight
  int untracked = 0;      ///< threads that have leases which are neither held nor finished
  bool asking = false;    ///< one of them looks for lost claims: no other thread claims meanwhile
  bool starving = false;  ///< it would claim, but there is no room
  bool logged_full =
      false;  ///< the log says that deliveries wait for a worker; reset when they do not
  Clock::time_point full_since = never;  ///< it would have claimed, but all workers were busy
  StoreHealth store_health = StoreHealth::untried;  ///< constant while it is scheduled
  bool answers = false;  ///< it answered while others hung, when the current visit began
  StoreCall visit{visit_limits};
  StoreCall chore{chore_limits};
  Clock::time_point next_chores = {};
  std::unique_ptr<Housekeeping> housekeeping = {};  ///< in the process that does its chores
  bool paused = false;
  bool leaving = false;                   ///< it finishes what it holds, and claims nothing new
  Clock::time_point stuck_since = never;  ///< no settlement has succeeded since
  [[nodiscard]] bool has_nothing() const {
    return held.empty() && finished.empty() && !busy && !writing;
  }

 private:
  void warn_of_few_connections();
  Claim claim(Session* session, std::int64_t limit);
  void check_server_identity(const Session& session);
  template <class F>
  Claim noting_lost_claim(F&& claim);
  std::vector<Message> claim_alone(std::int64_t limit);
  bool settle_with_claim(std::vector<Settlement>& settlements, std::int64_t limit,
                         std::vector<Message>& messages, std::string& refusal);
  std::string settle_each(std::vector<Settlement>& settlements);
  void written_down(const std::vector<Settlement>& settlements, std::size_t lost,
                    Clock::time_point begin) const;
  void plan_next_look(std::size_t count, bool full);
  void report_lost(std::size_t count) const;
  void report_dead(const std::vector<DeadDelivery>& deliveries) const;

  const QueueOpener source_;
  const BoxPollerContext parts_;
  WorkerHeartbeat heartbeat_;
  const DispatchObserver observer_;
  std::mutex server_identity_mutex_;
  std::string server_identity_;  ///< of the first server that was claimed from
  std::mutex opening_;
  std::shared_ptr<WorkQueue> queue_;  ///< shared with the set of databases it comes from
  std::unique_ptr<Caller> caller_;
  std::unique_ptr<LeaseKeeper> slot_;
  std::optional<NamedLease> held_slot_;  ///< as of the last call of hold_slot()
  Clock::time_point next_try_ = Clock::time_point::max();
  std::unique_ptr<Wake::Subscription> wake_;
  std::shared_ptr<Watcher> watcher_;  ///< shared by all dispatchers of the process
  Watcher::Subscription watch_;

  Clock::time_point next_look_ = {};
  Duration pace_ = {};
  std::optional<Duration> next_due_ = {};  ///< additional result of the last claim
  Clock::time_point called_ = {};
  bool called_here_ = false;  ///< by a commit of this process: a claim finds deliveries
  /// All deliveries that became visible earlier have been claimed. A claim that starts here need
  /// not step over the dead rows that a long transaction keeps in the index.
  std::optional<Instant> floor_;
  Clock::time_point next_full_look_ = {};
  int failures_ = 0;
  LostClaimTimer lost_claim_timer_;
};

}  // namespace twinbox
