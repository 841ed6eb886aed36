#include "twinbox/dispatcher.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "dispatch/call.hpp"
#include "dispatch/settle.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr Duration first_pause = 250ms;
constexpr Duration longest_pause = 30s;

void check_bounds(const DispatcherOptions& options) {
  const auto refuse = [](const std::string& text) {
    throw std::out_of_range("dispatcher options: " + text);
  };
  if (options.workers < 1 || options.workers > 1024) refuse("workers must be 1 to 1024");
  if (options.poll_interval <= Duration::zero()) refuse("poll_interval must be longer than zero");
  if (options.grace < Duration::zero()) refuse("grace must not be below zero");
  require_lease(options.lease);
  require_limit(options.batch);
}

}  // namespace

/// The loop thread claims, renews and settles; worker threads call handlers. What both touch is
/// under mutex_.
class Dispatcher::Loop {
 public:
  Loop(WorkQueue& queue, Handlers handlers, DispatcherOptions options, DispatchObserver observer)
      : queue_(queue),
        handlers_(std::move(handlers)),
        options_(options),
        observer_(std::move(observer)),
        owner_(OwnerToken::make(queue.database().environment())),
        caller_(queue, handlers_, options_, observer_, owner_) {
    check_bounds(options_);
  }

  ~Loop() {
    {
      const std::scoped_lock lock{mutex_};
      for (const auto& task : running_) task->watch.stop.request_stop();
      closing_ = true;
    }
    work_.notify_all();
  }

  std::size_t step() {
    if (paused_) return 0;
    const std::vector<Message> messages = claim(options_.batch);
    for (const Message& message : messages) handle_here(message);
    return messages.size();
  }

  void run(const std::stop_token& stop);

  void set_paused(bool paused) {
    paused_ = paused;
    signal(&Loop::woken_);
  }

  [[nodiscard]] bool paused() const noexcept { return paused_; }
  [[nodiscard]] const OwnerToken& owner() const noexcept { return owner_; }

 private:
  struct Task {
    explicit Task(Message claimed) : message(std::move(claimed)) {}
    Message message;
    CallWatch watch = {};
    Clock::time_point deadline =
        Clock::time_point::max();  ///< of the handler's timeout, once it runs
    bool lost = false;
  };
  // Shared by the worker that runs it and the loop that renews and watches it.
  using Shared = std::shared_ptr<Task>;

  std::vector<Message> claim(std::int64_t limit) {
    std::vector<Message> messages = queue_.claim(owner_, options_.lease, limit);
    if (observer_.claimed && !messages.empty()) observer_.claimed(messages.size());
    return messages;
  }

  void handle_here(const Message& message) {
    CallWatch watch;
    if (auto verdict = caller_.call(message, watch)) write_down({{message, std::move(*verdict)}});
  }

  void write_down(const std::vector<Settlement>& settlements) {
    const std::size_t lost = settle(queue_, owner_, settlements);
    report(queue_, observer_, settlements);
    if (lost == 0) return;
    queue_.box().log(LogLevel::warning, "lease_lost", {{"count", static_cast<std::int64_t>(lost)}});
    if (observer_.lease_lost) observer_.lease_lost(lost);
  }

  void signal(bool Loop::*flag) {
    {
      const std::scoped_lock lock{mutex_};
      this->*flag = true;
    }
    changed_.notify_all();
  }

  // The worker threads.
  void start_workers();
  void work();

  // The loop thread. Each returns when it has looked once.
  void settle_finished();
  void renew_leases();
  void watch_timeouts();
  void claim_more();
  void wait(const std::stop_token& stop);
  void shut_down();
  void pause_after(const std::string& error, const std::stop_token& stop);

  [[nodiscard]] std::size_t in_flight() const { return waiting_.size() + running_.size(); }
  [[nodiscard]] std::int64_t room();

  WorkQueue& queue_;
  const Handlers handlers_;
  const DispatcherOptions options_;
  const DispatchObserver observer_;
  const OwnerToken owner_;
  const Caller caller_;
  std::atomic<bool> paused_ = false;

  std::mutex mutex_;
  std::condition_variable_any
      changed_;                   ///< for the loop: something finished, came in, or shall stop
  std::condition_variable work_;  ///< for the workers: there is something to do
  std::deque<Shared> waiting_;
  std::vector<Shared> running_;
  std::vector<Settlement> finished_;
  bool woken_ = false;
  bool retimed_ = false;  ///< a call with a timeout has begun
  bool active_ = false;   ///< a loop is there to settle what workers finish
  bool closing_ = false;

  // Of the loop thread alone.
  bool hungry_ = true;  ///< there may be more to claim
  Clock::time_point next_look_ = {};
  Clock::time_point next_renewal_ = {};
  int troubles_ = 0;

  std::vector<std::jthread> threads_;  ///< last: they are joined before anything above is destroyed
};

void Dispatcher::Loop::start_workers() {
  while (threads_.size() < static_cast<std::size_t>(options_.workers)) {
    threads_.emplace_back([this] { work(); });
  }
}

void Dispatcher::Loop::work() {
  std::unique_lock lock{mutex_};
  for (;;) {
    work_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
    if (closing_) return;
    const Shared task = waiting_.front();
    waiting_.pop_front();
    if (const auto timeout = caller_.timeout(task->message)) {
      task->deadline = Clock::now() + *timeout;
      retimed_ = true;
      changed_.notify_all();
    }
    running_.push_back(task);
    lock.unlock();
    std::optional<Verdict> verdict;
    try {
      verdict = caller_.call(task->message, task->watch);
    } catch (const std::exception& error) {
      // Only the database can fail here (a mark, a transaction of ours): the lease decides what
      // happens next.
      queue_.box().log(
          LogLevel::error, "call_error",
          {{"id", task->message.id.view()}, {"error", std::string_view{error.what()}}});
    }
    lock.lock();
    std::erase(running_, task);
    if (verdict) finished_.push_back({task->message, std::move(*verdict)});
    if (active_) {
      changed_.notify_all();
      continue;
    }
    // The loop has ended while this handler went on: what it said is settled here.
    std::vector<Settlement> left = std::exchange(finished_, {});
    lock.unlock();
    try {
      write_down(left);
    } catch (const std::exception& error) {
      queue_.box().log(LogLevel::error, "settle_error",
                       {{"error", std::string_view{error.what()}}});
    }
    lock.lock();
  }
}

std::int64_t Dispatcher::Loop::room() {
  const std::scoped_lock lock{mutex_};
  // As many again as can run wait in memory, so that no worker idles during a claim.
  const auto limit = 2 * static_cast<std::int64_t>(options_.workers);
  return std::min(options_.batch, limit - static_cast<std::int64_t>(in_flight()));
}

void Dispatcher::Loop::settle_finished() {
  std::vector<Settlement> batch;
  {
    const std::scoped_lock lock{mutex_};
    batch.swap(finished_);
  }
  if (batch.empty()) return;
  try {
    write_down(batch);
  } catch (...) {
    const std::scoped_lock lock{mutex_};
    finished_.insert(finished_.begin(), std::make_move_iterator(batch.begin()),
                     std::make_move_iterator(batch.end()));
    throw;
  }
}

void Dispatcher::Loop::renew_leases() {
  if (Clock::now() < next_renewal_) return;
  std::vector<Shared> held;
  {
    const std::scoped_lock lock{mutex_};
    held.assign(waiting_.begin(), waiting_.end());
    held.insert(held.end(), running_.begin(), running_.end());
  }
  next_renewal_ = Clock::now() + options_.lease / 3;
  std::vector<Lease> leases;
  for (const Shared& task : held) {
    if (!task->lost) leases.push_back(task->message.lease());
  }
  if (leases.empty()) return;
  const std::vector<WorkId> kept = queue_.renew(owner_, leases, options_.lease);
  for (const Shared& task : held) {
    if (task->lost || std::find(kept.begin(), kept.end(), task->message.work_id) != kept.end())
      continue;
    // A transactional or marked duty may be finished already; its worker knows. Others must not go
    // on.
    task->lost = true;
    task->watch.stop.request_stop();
  }
}

void Dispatcher::Loop::watch_timeouts() {
  std::vector<Shared> late;
  {
    const std::scoped_lock lock{mutex_};
    for (const Shared& task : running_) {
      if (Clock::now() >= task->deadline && !task->watch.timed_out.exchange(true))
        late.push_back(task);
    }
  }
  for (const Shared& task : late) {
    task->watch.stop.request_stop();
    queue_.box().log(LogLevel::warning, "timeout",
                     {{"topic", task->message.topic.view()}, {"id", task->message.id.view()}});
    if (observer_.timed_out) observer_.timed_out(task->message);
  }
}

void Dispatcher::Loop::claim_more() {
  if (paused_) return;
  const std::int64_t limit = room();
  if (limit <= 0 || (!hungry_ && Clock::now() < next_look_)) return;
  const std::vector<Message> messages = claim(limit);
  hungry_ = static_cast<std::int64_t>(messages.size()) == limit;
  next_look_ = Clock::now() + options_.poll_interval;
  if (messages.empty()) return;
  if (next_renewal_ <= Clock::now()) next_renewal_ = Clock::now() + options_.lease / 3;
  {
    const std::scoped_lock lock{mutex_};
    for (const Message& message : messages) waiting_.push_back(std::make_shared<Task>(message));
  }
  messages.size() == 1 ? work_.notify_one() : work_.notify_all();
}

void Dispatcher::Loop::wait(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  Clock::time_point until = next_look_;
  if (in_flight() > 0) until = std::min(until, next_renewal_);
  for (const Shared& task : running_) {
    if (!task->watch.timed_out) until = std::min(until, task->deadline);
  }
  const auto limit = 2 * static_cast<std::size_t>(options_.workers);
  const auto ready = [&] {
    return woken_ || retimed_ || !finished_.empty() || (hungry_ && !paused_ && in_flight() < limit);
  };
  changed_.wait_until(lock, stop, until, ready);
  retimed_ = false;
  if (std::exchange(woken_, false)) hungry_ = true;
}

void Dispatcher::Loop::pause_after(const std::string& error, const std::stop_token& stop) {
  Duration pause = first_pause;
  for (int i = 0; i < troubles_ && pause < longest_pause; ++i) pause *= 2;
  pause = std::min(pause, longest_pause);
  pause = pause / 2 +
          Duration{static_cast<std::int64_t>(queue_.database().environment().random_bits() %
                                             static_cast<std::uint64_t>(pause.count() / 2))};
  ++troubles_;
  queue_.box().log(LogLevel::error, "loop_error",
                   {{"error", std::string_view{error}}, {"pause_ms", pause / 1ms}});
  if (observer_.loop_error) observer_.loop_error(error);
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, stop, pause, [] { return false; });
  hungry_ = true;
}

void Dispatcher::Loop::run(const std::stop_token& stop) {
  {
    const std::scoped_lock lock{mutex_};
    if (active_) throw UsageError("dispatcher: run() is already running; use one run() at a time");
    active_ = true;
  }
  hungry_ = true;
  start_workers();
  const Wake::Subscription wake{queue_.database().pool().wake(), [this] { signal(&Loop::woken_); }};
  while (!stop.stop_requested()) {
    try {
      settle_finished();
      renew_leases();
      watch_timeouts();
      claim_more();
      troubles_ = 0;
    } catch (const std::exception& error) {
      pause_after(error.what(), stop);
      continue;
    }
    wait(stop);
  }
  shut_down();
}

void Dispatcher::Loop::shut_down() {
  std::vector<Settlement> unstarted;
  {
    const std::scoped_lock lock{mutex_};
    for (const Shared& task : waiting_)
      unstarted.push_back({task->message, {.act = Verdict::Act::release}});
    waiting_.clear();
    for (const Shared& task : running_) {
      task->watch.shutting_down = true;
      task->watch.stop.request_stop();
    }
  }
  const Clock::time_point end = Clock::now() + options_.grace;
  for (bool over = false; !over;) {
    bool trouble = false;
    try {
      settle(queue_, owner_, unstarted);
      unstarted.clear();
      settle_finished();
      renew_leases();
    } catch (const std::exception& error) {
      trouble = true;
      queue_.box().log(LogLevel::error, "settle_error",
                       {{"error", std::string_view{error.what()}}});
    }
    std::unique_lock lock{mutex_};
    const auto idle = [&] { return running_.empty() && finished_.empty() && unstarted.empty(); };
    const auto next = trouble ? Clock::now() + first_pause : next_renewal_;
    changed_.wait_until(lock, std::min(end, next),
                        [&] { return !trouble && (!finished_.empty() || idle()); });
    over = idle() || Clock::now() >= end;
    if (over) active_ = false;
  }
}

Dispatcher::Dispatcher(WorkQueue& queue, Handlers handlers, DispatcherOptions options,
                       DispatchObserver observer)
    : loop_(std::make_unique<Loop>(queue, std::move(handlers), options, std::move(observer))) {}

Dispatcher::~Dispatcher() = default;

std::size_t Dispatcher::step() { return loop_->step(); }

std::size_t Dispatcher::drain() {
  std::size_t handled = 0;
  for (std::size_t some = step(); some > 0; some = step()) handled += some;
  return handled;
}

void Dispatcher::run(std::stop_token stop) { loop_->run(stop); }
void Dispatcher::pause() { loop_->set_paused(true); }
void Dispatcher::resume() { loop_->set_paused(false); }
bool Dispatcher::paused() const noexcept { return loop_->paused(); }
const OwnerToken& Dispatcher::owner() const noexcept { return loop_->owner(); }

}  // namespace twinbox
