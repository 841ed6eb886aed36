// One box of a dispatcher: how it is claimed from, renewed and settled, and when it is looked at
// next. It decides and talks to the database; the threads are the dispatcher's.
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

/// What the last visit to a store has shown.
enum class StoreHealth { works, untried, failing };
inline constexpr std::array every_store_health{StoreHealth::works, StoreHealth::untried,
                                               StoreHealth::failing};
/// A commit takes some ms, and a claim from a long queue some tens.
inline constexpr StoreCall::Limits visit_limits{.brief = std::chrono::milliseconds{100},
                                                .interrupt_after = std::chrono::milliseconds{250}};
/// A chore works in batches, and goes on later where it was ended.
inline constexpr StoreCall::Limits chore_limits{.brief = std::chrono::seconds{1},
                                                .interrupt_after = std::chrono::seconds{10}};

/// Where a poller's box comes from. Opening may fail and is then tried again.
struct QueueOpener {
  const void* key;  ///< what it is removed by
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
/// give the same epochs again. Nothing has been leased; a poller with another owner can claim.
class ServerChanged : public DatabaseError {
 public:
  explicit ServerChanged(const std::string& message) : DatabaseError(Kind::cancelled, message) {}
};

/// One visit at a time, and beside it one that only writes down.
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

  /// From now on `call` is called when something new may be there; with true when another process
  /// brought it.
  void listen(const std::function<void(bool remote)>& call);
  /// `polite`: also tells the store that nobody works on it any more from here.
  void stop_listening(bool polite);

  /// Tells the store, when it is time to, who works on it.
  void send_heartbeat(bool in_haste) { heartbeat_.send(queue(), parts_.box_pollers, in_haste); }
  /// Tells it that nobody works on it any more from here.
  void leave();
  [[nodiscard]] Clock::time_point next_heartbeat() const noexcept { return heartbeat_.next(); }

  /// Where only some processes may work on a box: takes a place among them, and keeps it. False:
  /// they are all taken, or the place was lost since the last call.
  bool hold_slot();
  [[nodiscard]] bool has_slot() const;
  /// When hold_slot() is to be called again.
  [[nodiscard]] Clock::time_point next_try() const noexcept { return next_try_; }

  /// One claim, for a step by hand. Thread-safe.
  std::vector<Message> claim_once(std::int64_t limit);
  /// Writes down what became of messages, and claims up to `limit` new ones (0: none), in one
  /// transaction where both are to be done. A settlement that the database refuses while it takes
  /// others is reported and given up. When it throws, `settlements` are those that are still to be
  /// written down; otherwise none.
  std::vector<Message> settle_and_claim(std::vector<Settlement>& settlements, std::int64_t limit);
  /// A claim has failed, and it is time to ask what it has leased. Thread-safe.
  [[nodiscard]] bool may_have_lost_claims() const { return lost_claim_timer_.asks_now(); }
  /// Releases what failed claims have leased: everything but `in_hand`.
  void release_lost(const std::vector<Lease>& in_hand);
  /// Thread-safe.
  void write_down(std::vector<Settlement>& settlements);
  /// Something can be written down while something else is claimed. Once the box is open.
  [[nodiscard]] bool writes_beside() const;
  /// The leases of what could not be written down have ended: it is left to whoever claims it next.
  void give_up(std::vector<Settlement>& settlements, std::string_view why) const;
  /// Moves the end of these leases. Returns those that are lost, or have been marked meanwhile.
  std::vector<SharedTask> renew(const std::vector<SharedTask>& tasks);

  /// All workers are busy: tells the log of it when deliveries have waited for at least `bound`.
  bool log_if_full(Duration bound);

  /// When the next claim is due by itself.
  [[nodiscard]] Clock::time_point next_look() const noexcept { return next_look_; }
  /// Something new may be there, since `call`. What another process brought may be followed by more
  /// that is not told of.
  void look_now(Clock::time_point call, bool remote) noexcept;

  /// How long it rests after an error: longer each time, until it works again. `cut_short`: the
  /// error is that another store needed the thread.
  Duration backoff_after(const std::exception& error, bool cut_short = false);
  void works() noexcept { failures_ = 0; }

  // What follows belongs to the dispatcher and is under its lock.
  std::vector<SharedTask> held = {};                ///< claimed, waiting or running
  std::vector<Settlement> finished = {};            ///< to be written down
  Clock::time_point at = Clock::time_point::max();  ///< when it is visited next
  Clock::time_point called_at = {};
  std::atomic<Clock::time_point> committed_at =
      Clock::time_point{};             ///< of the last commit, by anyone
  Clock::time_point answered_at = {};  ///< its last visit that succeeded
  std::atomic<bool> called = false;    ///< a wake-up waits for its look
  std::atomic<bool> called_remotely = false;
  Clock::time_point next_renewal = {};
  bool busy = false;         ///< somebody visits it now
  bool writing = false;      ///< somebody writes down beside the visits
  int calls = 0;             ///< of handlers, under way
  int untracked = 0;         ///< threads that have leases which are neither held nor finished
  bool asking = false;       ///< one of them asks for lost claims: nobody else claims meanwhile
  bool starving = false;     ///< it would claim, but there is no room
  bool logged_full = false;  ///< that its deliveries wait for a worker, until they do not
  Clock::time_point full_since = never;  ///< it would have claimed, but all workers were busy
  StoreHealth store_health = StoreHealth::untried;  ///< constant while it is scheduled
  bool answers = false;  ///< it did while others hung, when the visit under way began
  StoreCall visit{visit_limits};
  StoreCall chore{chore_limits};
  Clock::time_point next_chores = {};
  std::unique_ptr<Housekeeping> housekeeping = {};  ///< of whoever does its chores
  bool paused = false;
  bool leaving = false;                   ///< it finishes what it holds, and nothing new begins
  Clock::time_point stuck_since = never;  ///< nothing could be written down since
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
  std::optional<Duration> next_due_ = {};  ///< what the last claim found besides
  Clock::time_point called_ = {};
  bool called_here_ = false;  ///< by a commit of this process: there is something to claim
  /// Everything that became visible earlier has been claimed. A claim that starts here need not
  /// step over the dead rows that a long transaction of somebody else keeps in the index.
  std::optional<Instant> floor_;
  Clock::time_point next_full_look_ = {};
  int failures_ = 0;
  LostClaimTimer lost_claim_timer_;
};

}  // namespace twinbox
