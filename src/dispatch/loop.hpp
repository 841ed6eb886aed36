// The threads of a dispatcher: each takes the next task, a visit to a poller or a call of a
// handler; one more thread supervises them. Hanging stores take none of the slots of the others
// (docs/contributing/decisions/hanging_stores.md).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dispatch/box_poller.hpp"
#include "twinbox/dispatcher.hpp"

namespace twinbox {

class Dispatcher::Loop {
 public:
  Loop(Handlers handlers, DispatcherOptions options, DispatchObserver observer,
       const Environment& environment);
  ~Loop();

  void add(QueueOpener source);
  /// Claims nothing more from the stores added under this key; deliveries in hand are finished
  /// first.
  void remove(const void* key);

  std::size_t step();
  std::size_t drain(const std::stop_token& stop);
  void run(const std::stop_token& stop);

  void set_paused(bool paused);
  void set_store_paused(std::string_view store, bool paused);
  void set_topic_paused(const Topic& topic, bool paused);
  [[nodiscard]] bool paused() const noexcept { return paused_; }
  [[nodiscard]] const OwnerToken& owner() const noexcept { return owner_; }

 private:
  /// This thread is one of the loop's own, or inside its run(), as long as the object lives.
  class OnThread {
   public:
    explicit OnThread(const Loop* loop) noexcept : outer_(std::exchange(current, loop)) {}
    ~OnThread() { current = outer_; }
    OnThread(const OnThread&) = delete;
    OnThread& operator=(const OnThread&) = delete;
    static thread_local const Loop* current;

   private:
    const Loop* outer_;
  };
  using Lock = std::unique_lock<std::mutex>;
  // A step by hand may still use a poller whose store was removed.
  using SharedPoller = std::shared_ptr<BoxPoller>;
  struct Reservation {
    Clock::time_point at;
    std::int64_t count;
  };

  // Claims whose answers were lost. Only a thread that is the only one with leases outside of the
  // poller's list can find the lost ones.
  struct UntrackedLeases {
    UntrackedLeases(Loop& of, BoxPoller& one);
    ~UntrackedLeases();
    UntrackedLeases(const UntrackedLeases&) = delete;
    UntrackedLeases& operator=(const UntrackedLeases&) = delete;
    Loop& loop;
    BoxPoller& poller;
  };
  void release_lost(BoxPoller& poller);
  void release_lost_or_log(BoxPoller& poller);
  /// The deliveries in hand, `own` included; empty: there is nothing to ask, or not now. Otherwise
  /// end_question() follows.
  std::optional<std::vector<Lease>> begin_question(BoxPoller& poller,
                                                   const std::vector<Settlement>& own);
  void end_question(BoxPoller& poller);

  // By hand, on the caller's thread.
  std::size_t step(BoxPoller& poller);
  std::vector<Settlement> postpone_paused(std::vector<Message>& messages);

  // The threads. Functions that take a lock hold it on entry and on return.
  /// Ends the program where the destructor would wait for its own thread.
  void refuse_own_thread() const noexcept;
  void serve();
  /// Until there is a task, or its time has come. At `now` there was none.
  void rest(Clock::time_point now, Lock& lock);
  enum class Wanted { none, one, all };
  /// How many idle threads to wake, since there is more to do than the caller is about to do.
  /// wake() follows, best without the lock: a woken thread needs it.
  [[nodiscard]] Wanted others_wanted();
  /// Adds a thread when all are occupied: some hang, and others have to keep the deadlines.
  void add_thread_if_all_are_occupied();
  void wake(Wanted others);

  // Visits.
  void visit_next(BoxPoller& poller, Lock& lock);
  void visit(BoxPoller& poller, Lock& lock);
  enum class Admission { now, later, when_one_ends };
  /// When the longest hanging visit began; never: none hangs.
  [[nodiscard]] Clock::time_point hanging_since(Clock::time_point now) const;
  /// Its store is known to work since then: a visit succeeded, or a transaction was committed.
  [[nodiscard]] static bool answered_since(const BoxPoller& poller, Clock::time_point since);
  /// Whether a store of this kind may be visited in parallel to the current visits. `answers`:
  /// while others hang, it is known to work.
  [[nodiscard]] Admission admission(StoreHealth store_health, bool answers,
                                    Clock::time_point now) const;
  [[nodiscard]] bool waits_for_admission(StoreHealth store_health, Clock::time_point now) const;
  /// Null, or a visit that has lasted long enough and whose thread another store needs.
  [[nodiscard]] BoxPoller* visit_to_end(Clock::time_point now) const;
  static void end_call(StoreCall& call, Lock& lock);
  /// Hanging visits occupy no more threads than these, and handler calls no more than as many
  /// again.
  static constexpr int most_hanging = 64;
  /// A visit after run(): handlers that continue keep their leases.
  void keep_leases(BoxPoller& poller, Lock& lock);
  /// Those whose leases end sooner or later, unless they are renewed now.
  static std::vector<SharedTask> leased(const BoxPoller& poller);
  /// A poller's settlements justify a connection of their own, in parallel to its visit.
  [[nodiscard]] bool is_crowded(const BoxPoller& poller) const;
  void write_in_parallel(BoxPoller& poller, Lock& lock);
  void call(BoxPoller& poller, bool remote);
  void look_again();
  void schedule(BoxPoller& poller, Clock::time_point at);
  void schedule_next(BoxPoller& poller, Clock::time_point now);
  void schedule_settling(BoxPoller& poller, Clock::time_point now);
  /// The last visit is running or finished: no store is visited until run() has ended.
  [[nodiscard]] bool is_stopping_run() const noexcept { return stopping_ && !finished_; }
  /// Null: no due poller is admitted.
  [[nodiscard]] BoxPoller* next_visit(Clock::time_point now) const;
  /// When the next poller is due.
  [[nodiscard]] Clock::time_point next_time(Clock::time_point now) const;
  /// How long a worker was missing.
  [[nodiscard]] bool waited_long(const std::vector<Message>& messages) const;
  [[nodiscard]] bool takes_more(const BoxPoller& poller) const;
  /// How many messages may be in flight: running and waiting ones.
  [[nodiscard]] std::int64_t capacity() const;
  [[nodiscard]] std::int64_t room() const;
  [[nodiscard]] bool worth_a_claim() const;
  /// The handlers of `count` messages return within the time of a commit.
  [[nodiscard]] bool is_short(std::size_t count) const;
  [[nodiscard]] std::int64_t reserve(const BoxPoller& poller, Clock::time_point now);
  /// Calls whose database has not answered for a while: they count neither as a worker nor as in
  /// flight.
  [[nodiscard]] int hanging_calls(Clock::time_point now) const;
  /// When the next call becomes one of them.
  [[nodiscard]] Clock::time_point next_hanging_call(Clock::time_point now) const;
  [[nodiscard]] Clock::time_point settle_time(const BoxPoller& poller, Clock::time_point now) const;
  void feed_starving();
  void hand_out(BoxPoller& poller, std::vector<Message> messages, Clock::time_point claimed);
  void give_up_late(BoxPoller& poller, Clock::time_point now);
  void give_up_stuck(BoxPoller& poller, Clock::time_point begin, Lock& lock);
  void stop_lost(BoxPoller& poller, std::vector<SharedTask>& tasks, Lock& lock);
  void release_slot(BoxPoller& poller, Lock& lock);
  static bool everything(const Task& task);
  /// Releases the chosen deliveries that wait for a worker, for other workers to take.
  void release_waiting(BoxPoller& poller, const std::function<bool(const Task&)>& chosen);
  /// Its claimed deliveries are finished under its own owner; later ones are claimed by another.
  void succeed(BoxPoller& poller);
  /// Null: another thread has done so. Destroy it without the lock: its store may be closed with
  /// it.
  SharedPoller take_out(BoxPoller& poller);

  // Calls.
  /// The end: no task may be called now.
  using Waiting = std::deque<SharedTask>;
  [[nodiscard]] Waiting::const_iterator next_call() const;
  [[nodiscard]] bool may_call() const { return next_call() != waiting_.end(); }
  void call_next(Lock& lock);
  std::vector<SharedTask> take_tasks();
  std::vector<Settlement> call_tasks(BoxPoller& poller, const std::vector<SharedTask>& tasks);
  void finish(const std::vector<SharedTask>& tasks, std::vector<Settlement> settlements,
              Clock::time_point begin, Lock& lock);
  void write_down_or_log(BoxPoller& poller, std::vector<Settlement> finished);
  void forget_task(const SharedTask& task);

  // The threads that do the chores: one poller after the other, unless one takes long.
  void run_chores(const std::stop_token& stop);
  void add_chore_thread();
  void do_chores(SharedPoller poller, const std::stop_token& stop, Lock& lock);
  /// Null: there is none, or not before `next`.
  BoxPoller* next_chores(Clock::time_point now, Clock::time_point& next, Lock& lock);

  // The thread that called run().
  void watch(const std::stop_token& stop);
  /// Wakes it up no later than then.
  void call_watcher(Clock::time_point by);
  [[nodiscard]] Clock::time_point next_report() const;
  void report_timeouts(Lock& lock);
  void report_slow(Lock& lock);
  void shut_down();
  void wait_for_visits();
  void say_goodbye();
  void end_run();

  const Handlers handlers_;
  const DispatcherOptions options_;
  const DispatchObserver observer_;
  const Environment environment_;
  const OwnerToken owner_;
  std::string announcement_;         ///< what other workers leave to this one
  const std::size_t largest_batch_;  ///< what one worker can start at once
  std::atomic<bool> paused_ = false;
  std::atomic<int> box_count_ = 0;

  std::mutex mutex_;
  std::condition_variable work_;  ///< for idle threads: there is something to do
  std::condition_variable_any
      idle_changed_;  ///< for run(): a deadline was set, or the last poller is idle
  std::condition_variable_any chores_changed_;  ///< box_pollers were added or removed
  std::vector<SharedPoller> box_pollers_;
  using Schedule = std::set<std::pair<Clock::time_point, BoxPoller*>>;
  std::array<Schedule, every_store_health.size()> schedules_;  ///< by store_health
  [[nodiscard]] Schedule& schedule_of(StoreHealth store_health) {
    return schedules_[static_cast<std::size_t>(store_health)];
  }
  [[nodiscard]] const Schedule& schedule_of(StoreHealth store_health) const {
    return schedules_[static_cast<std::size_t>(store_health)];
  }
  std::vector<BoxPoller*> visited_;  ///< current visits
  std::deque<BoxPoller*> starving_;
  Waiting waiting_;
  std::vector<SharedTask> running_;  ///< the first message of each call
  std::size_t in_calls_ = 0;         ///< messages of all calls
  std::set<std::string, std::less<>> paused_topics_;
  std::map<const BoxPoller*, Reservation> reservations_;  ///< of claims in progress
  Duration handler_time_ = {};                            ///< recent average; zero: not known
  Duration usual_time_ = {};                              ///< the same without outliers
  std::size_t next_step_ = 0;                             ///< the poller of the next step by hand
  int visits_ = 0;                                        ///< in progress
  int writes_ = 0;  ///< in parallel to visits: at most one that does not hang
  Clock::time_point last_write_ = {};
  int calls_ = 0;                             ///< of handlers, in flight
  int idle_threads_ = 0;                      ///< threads that have nothing to do
  bool waking_ = false;                       ///< one of them was woken and has not started yet
  Clock::time_point timer_deadline_ = never;  ///< the latest time at which one of them wakes up
  int box_changes_ = 0;                       ///< for the chores
  int chores_under_way_ = 0;                  ///< stores
  std::stop_source chores_end_;
  std::vector<std::jthread> chore_threads_;
  Clock::time_point watched_until_ = Clock::time_point::min();  ///< run() sleeps until then
  bool retimed_ = false;                                        ///< there is an earlier deadline
  bool active_ = false;                                         ///< run() settles finished calls
  bool finished_ = true;         ///< no run() is active, not even in its last steps
  bool draining_ = false;        ///< nothing new begins
  bool stopping_ = false;        ///< no more visits, until run() has ended
  bool closing_ = false;         ///< the threads end
  std::stop_source run_end_;     ///< ends run(), by its own stop token or by the destructor
  std::stop_source claims_;      ///< stopped with run(): calls that would begin something new end
  std::stop_source last_calls_;  ///< stopped some time after the grace period: all others end, too;
                                 ///< after run() stopped with the last handler

  /// As many as may visit, settle and call at once; more if some hang, up to a bound. A handler may
  /// outlast run(), and its thread with it.
  std::vector<std::jthread> threads_;  ///< last: joined before anything above is destroyed
};

}  // namespace twinbox
