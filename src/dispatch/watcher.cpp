#include "dispatch/watcher.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dispatch/watch_opener.hpp"
#include "queue/box.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using Clock = Watch::Clock;

/// A descriptor that is readable again at once waits twice as long, up to the maximum: a flood of
/// commits costs a bounded number of wake-ups.
constexpr std::chrono::microseconds first_rest = 100us;
constexpr std::chrono::microseconds longest_rest = 2ms;

/// A descriptor that any thread can make readable.
class WakePipe {
 public:
  WakePipe() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  ~WakePipe() { ::close(descriptor_); }
  WakePipe(const WakePipe&) = delete;
  WakePipe& operator=(const WakePipe&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  void ring() const noexcept { static_cast<void>(::eventfd_write(descriptor_, 1)); }
  void silence() const noexcept {
    eventfd_t value = 0;
    static_cast<void>(::eventfd_read(descriptor_, &value));
  }

 private:
  int descriptor_;
};

}  // namespace

struct Watcher::Entry {
  Entry(OpenWatch how, std::function<void()> what, Environment world, std::string name,
        const void* shared_budget)
      : open(std::move(how)),
        call(std::move(what)),
        environment(std::move(world)),
        store(std::move(name)),
        budget(shared_budget) {}

  const OpenWatch open;
  const std::function<void()> call;
  const Environment environment;
  const std::string store;
  const void* const budget;
  std::stop_source stop = {};  ///< of opening
  std::atomic<bool> working = false;
  std::atomic<bool> waiting = true;  ///< as set by the subscriber
  std::atomic<Clock::rep> busy_since = 0;
  std::atomic<bool> resting = false;  ///< notifications are off, since no thread waits
  std::atomic<Clock::rep> active_at = std::numeric_limits<Clock::rep>::min();
  std::atomic<bool> parked = false;  ///< no connection to spare for its watch
  std::atomic<bool> wanted = false;  ///< a poll found deliveries without a notification

  std::mutex mutex = {};  ///< held while the watch is used, a call is made or a log is written
  bool gone = false;
  std::unique_ptr<Watch> watch = {};

  // Of the loop thread alone.
  bool opening = false;
  bool impossible = false;
  bool seeks = false;  ///< another watch may be closed for it
  Clock::time_point opened_at = {};
  Clock::time_point next_open = {};
  int failures = 0;
};

class Watcher::Loop {
 public:
  explicit Loop(Times times) : times_(times) {}

  ~Loop() {
    {
      const std::scoped_lock lock{mutex_};
      closing_ = true;
      for (const Shared& entry : entries_) entry->stop.request_stop();
    }
    bell_.ring();
  }

  void add(const std::shared_ptr<Entry>& entry) {
    const std::scoped_lock lock{mutex_};
    entries_.push_back(entry);
    if (!thread_.joinable()) thread_ = std::jthread{[this] { run(); }};
    bell_.ring();
  }

  void ring() const noexcept { bell_.ring(); }

  void remove(const std::shared_ptr<Entry>& entry) noexcept {
    const std::scoped_lock lock{mutex_};
    std::erase(entries_, entry);
    bell_.ring();
  }

 private:
  // Shared by the subscription, the loop and the thread that opens its watch.
  using Shared = std::shared_ptr<Entry>;

  /// The descriptors that the loop waits for, and the entries of each.
  struct Plan {
    std::vector<pollfd> descriptors;
    std::vector<std::pair<Shared, int>> watches;
    Clock::time_point deadline = Clock::time_point::max();
  };

  struct Rest {
    Clock::time_point end;
    Clock::duration length = {};
  };

  // The loop thread.
  void run();
  void take_opened();
  void opened(Entry& entry, std::unique_ptr<Watch> watch);
  void find_a_connection(Entry& entry);
  bool close_coldest(const Entry& active);
  Plan make_plan();
  void add_descriptor(Plan& plan, int descriptor, Clock::time_point now);
  void wait(Plan& plan);
  void rest(int descriptor, Clock::time_point now);
  void ask(Entry& entry);
  void wait_while_busy(Entry& entry);
  void wait_again(Entry& entry);
  void lose(Entry& entry, const std::string& error);
  void pause(Entry& entry, const std::string& error);
  const Times times_;
  const WakePipe bell_;
  std::mutex mutex_;
  std::vector<Shared> entries_;
  std::atomic<bool> closing_ = false;
  std::unordered_map<int, Rest> rests_;  ///< of the loop thread alone

  WatchOpener opener_{[this] { bell_.ring(); }};
  std::jthread thread_;  ///< last: it ends before anything above is destroyed
};

void Watcher::Loop::run() {
  for (;;) {
    bell_.silence();
    // Checked after the bell: the final ring may be the one that was silenced.
    if (closing_) return;
    take_opened();
    Plan plan = make_plan();
    wait(plan);
    const auto now = Clock::now();
    std::vector<int> ready;
    for (const pollfd& one : plan.descriptors) {
      if (one.revents == 0 || one.fd == bell_.descriptor()) continue;
      rest(one.fd, now);
      ready.push_back(one.fd);
    }
    for (const auto& [entry, descriptor] : plan.watches) {
      const bool told = std::find(ready.begin(), ready.end(), descriptor) != ready.end();
      const std::scoped_lock lock{entry->mutex};
      if (entry->watch == nullptr) continue;
      if (told || entry->watch->look_again().value_or(Clock::time_point::max()) <= now) ask(*entry);
    }
  }
}

void Watcher::Loop::take_opened() {
  std::vector<Shared> refused;
  for (WatchOpener::Opened& one : opener_.take()) {
    Shared shared = std::static_pointer_cast<Entry>(one.whose);
    Entry& entry = *shared;
    const std::scoped_lock lock{entry.mutex};
    entry.opening = false;
    if (entry.gone) continue;
    if (one.watch != nullptr) {
      opened(entry, std::move(one.watch));
    } else if (one.impossible) {
      entry.impossible = true;
      entry.environment.write(
          LogLevel::warning, "watch_impossible",
          {{"store", std::string_view{entry.store}}, {"error", std::string_view{one.error}}});
    } else if (one.error.empty()) {
      refused.push_back(shared);
    } else {
      pause(entry, one.error);
    }
  }
  for (const Shared& entry : refused) find_a_connection(*entry);
}

void Watcher::Loop::opened(Entry& entry, std::unique_ptr<Watch> watch) {
  entry.watch = std::move(watch);
  entry.failures = 0;
  entry.seeks = false;
  entry.opened_at = Clock::now();
  entry.wanted = false;
  entry.working = true;
  entry.environment.write(LogLevel::debug, "watch", {{"store", std::string_view{entry.store}}});
  entry.call();
}

void Watcher::Loop::find_a_connection(Entry& entry) {
  // Logged once: the connections may be used by calls, not by watches.
  if (std::exchange(entry.seeks, false) && close_coldest(entry)) return;
  entry.parked = true;
}

/// Closes the watch with the oldest notification. False: it had one later than `active`, or it was
/// opened just now.
bool Watcher::Loop::close_coldest(const Entry& active) {
  Shared coldest;
  {
    const auto now = Clock::now();
    const std::scoped_lock lock{mutex_};
    for (const Shared& entry : entries_) {
      const bool eligible = entry->budget == active.budget && entry->working &&
                            now - entry->opened_at >= times_.tenure;
      if (eligible && (coldest == nullptr || entry->active_at < coldest->active_at))
        coldest = entry;
    }
  }
  if (coldest == nullptr || coldest->active_at >= active.active_at) return false;
  const std::scoped_lock lock{coldest->mutex};
  if (coldest->watch == nullptr) return true;
  coldest->watch.reset();
  coldest->working = false;
  coldest->resting = false;
  coldest->parked = true;
  coldest->environment.write(
      LogLevel::debug, "watch_closed",
      {{"store", std::string_view{coldest->store}}, {"for", std::string_view{active.store}}});
  coldest->call();
  return true;
}

Watcher::Loop::Plan Watcher::Loop::make_plan() {
  Plan plan;
  plan.descriptors.push_back({bell_.descriptor(), POLLIN, 0});
  std::vector<Shared> entries;
  {
    const std::scoped_lock lock{mutex_};
    entries = entries_;
  }
  const auto now = Clock::now();
  for (const Shared& entry : entries) {
    const std::scoped_lock lock{entry->mutex};
    if (entry->gone || entry->impossible || entry->opening) continue;
    if (entry->watch != nullptr) wait_again(*entry);
    if (entry->watch == nullptr) {
      if (entry->parked) {
        if (!entry->wanted.exchange(false)) continue;
        entry->parked = false;
        entry->seeks = true;
      }
      if (entry->next_open <= now) {
        entry->opening = true;
        opener_.open(entry, entry->open, entry->stop.get_token());
      } else {
        plan.deadline = std::min(plan.deadline, entry->next_open);
      }
      continue;
    }
    const int descriptor = entry->watch->descriptor();
    if (descriptor >= 0) add_descriptor(plan, descriptor, now);
    if (const auto look = entry->watch->look_again()) {
      plan.deadline = std::min(plan.deadline, *look);
    }
    plan.watches.emplace_back(entry, descriptor);
  }
  return plan;
}

void Watcher::Loop::add_descriptor(Plan& plan, int descriptor, Clock::time_point now) {
  // Watches that share a descriptor are mostly adjacent.
  if (plan.descriptors.back().fd == descriptor) return;
  if (const auto found = rests_.find(descriptor);
      found != rests_.end() && now < found->second.end) {
    plan.deadline = std::min(plan.deadline, found->second.end);
    return;
  }
  plan.descriptors.push_back({descriptor, POLLIN, 0});
}

void Watcher::Loop::wait(Plan& plan) {
  const auto now = Clock::now();
  timespec limit{};
  if (plan.deadline > now && plan.deadline != Clock::time_point::max()) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(plan.deadline - now);
    limit.tv_sec = static_cast<time_t>(left / 1s);
    limit.tv_nsec = static_cast<long>((left % 1s).count());
  }
  const bool endless = plan.deadline == Clock::time_point::max();
  const int count = ::ppoll(plan.descriptors.data(), plan.descriptors.size(),
                            endless ? nullptr : &limit, nullptr);
  if (count >= 0) return;
  for (pollfd& one : plan.descriptors) one.revents = 0;
}

void Watcher::Loop::rest(int descriptor, Clock::time_point now) {
  Rest& rest = rests_[descriptor];
  const bool again = now - rest.end < first_rest;
  rest.length = again ? std::min<Clock::duration>(rest.length * 2, longest_rest)
                      : Clock::duration{first_rest};
  rest.end = now + rest.length;
}

void Watcher::Loop::ask(Entry& entry) {
  try {
    if (entry.watch->changed()) {
      entry.active_at = Clock::now().time_since_epoch().count();
      entry.call();
    }
    wait_while_busy(entry);
  } catch (const DatabaseError& error) {
    lose(entry, error.what());
  }
}

void Watcher::Loop::wait_while_busy(Entry& entry) {
  const Clock::time_point since{Clock::duration{entry.busy_since.load()}};
  if (entry.waiting || entry.resting || Clock::now() - since < times_.busy) return;
  entry.resting = true;
  // Either this sees the waiting thread, or that thread sees that notifications are off, and rings.
  if (entry.waiting) {
    entry.resting = false;
  } else {
    entry.watch->set_waiting(false);
  }
}

void Watcher::Loop::wait_again(Entry& entry) {
  if (!entry.resting || !entry.waiting) return;
  entry.resting = false;
  try {
    entry.watch->set_waiting(true);
  } catch (const DatabaseError& error) {
    lose(entry, error.what());
  }
}

void Watcher::Loop::lose(Entry& entry, const std::string& error) {
  entry.watch.reset();
  entry.working = false;
  entry.resting = false;
  pause(entry, error);
  entry.call();  // a subscriber that relied on it has to poll now
}

void Watcher::Loop::pause(Entry& entry, const std::string& error) {
  auto pause = times_.first_pause;
  for (int i = 0; i < entry.failures && pause < times_.longest_pause; ++i) pause *= 2;
  pause = std::min(pause, times_.longest_pause);
  const auto choices = static_cast<std::uint64_t>(pause.count() / 2 + 1);
  const auto chance = static_cast<std::int64_t>(entry.environment.random_bits() % choices);
  pause = pause / 2 + std::chrono::milliseconds{chance};
  ++entry.failures;
  entry.next_open = Clock::now() + pause;
  entry.environment.write(LogLevel::warning, "watch_lost",
                          {{"store", std::string_view{entry.store}},
                           {"error", std::string_view{error}},
                           {"pause_ms", std::int64_t{pause.count()}}});
}

std::shared_ptr<Watcher> Watcher::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Watcher> instance;
  const std::scoped_lock lock{mutex};
  auto found = instance.lock();
  if (found == nullptr) {
    found = std::make_shared<Watcher>();
    instance = found;
  }
  return found;
}

Watcher::Watcher(Times times) : loop_(std::make_unique<Loop>(times)) {}
Watcher::~Watcher() = default;

Watcher::Subscription Watcher::watch(WorkQueue& queue, std::function<void()> call) {
  Database& database = queue.database();
  const BoxName box{queue.options().schema, queue.options().table};
  return watch(pool_of(database).watch(box), std::move(call), database.environment(),
               database.name(), pool_of(database).watch_budget());
}

Watcher::Subscription Watcher::watch(OpenWatch open, std::function<void()> call,
                                     Environment environment, std::string store,
                                     const void* budget) {
  if (!open) return {};
  auto entry = std::make_shared<Entry>(std::move(open), std::move(call), std::move(environment),
                                       std::move(store), budget);
  loop_->add(entry);
  return {*this, std::move(entry)};
}

Watcher::Subscription::Subscription(Watcher& watcher, std::shared_ptr<Entry> entry)
    : watcher_(&watcher), entry_(std::move(entry)) {}

Watcher::Subscription::Subscription(Subscription&& other) noexcept
    : watcher_(other.watcher_), entry_(std::move(other.entry_)) {}

Watcher::Subscription& Watcher::Subscription::operator=(Subscription&& other) noexcept {
  if (this == &other) return *this;
  end();
  watcher_ = other.watcher_;
  entry_ = std::move(other.entry_);
  return *this;
}

Watcher::Subscription::~Subscription() { end(); }

void Watcher::Subscription::end() noexcept {
  if (entry_ == nullptr) return;
  entry_->stop.request_stop();
  {
    const std::scoped_lock lock{entry_->mutex};
    entry_->gone = true;
    entry_->working = false;
    entry_->watch.reset();
  }
  watcher_->loop_->remove(entry_);
  entry_.reset();
}

void Watcher::Subscription::set_waiting(bool waiting) noexcept {
  if (entry_ == nullptr || entry_->waiting == waiting) return;
  if (!waiting) entry_->busy_since = Clock::now().time_since_epoch().count();
  entry_->waiting = waiting;
  if (waiting && entry_->resting) watcher_->loop_->ring();
}

void Watcher::Subscription::found() noexcept {
  if (entry_ == nullptr) return;
  entry_->active_at = Clock::now().time_since_epoch().count();
  if (entry_->working) return;
  entry_->wanted = true;
  // Either this sees that it is parked, and rings, or the loop sees that it is wanted.
  if (entry_->parked) watcher_->loop_->ring();
}

bool Watcher::Subscription::working() const noexcept {
  return entry_ != nullptr && entry_->working;
}

}  // namespace twinbox
