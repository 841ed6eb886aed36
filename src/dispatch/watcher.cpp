#include "dispatch/watcher.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "queue/box.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using Clock = Watch::Clock;

/// Enough that a few servers that do not answer hold up nobody else for long.
constexpr std::size_t most_openers = 4;
/// A descriptor that is readable again at once rests twice as long, up to the longest rest: a flood
/// of commits costs a bounded number of wake-ups.
constexpr std::chrono::microseconds first_rest = 100us;
constexpr std::chrono::microseconds longest_rest = 2ms;

/// A descriptor that any thread can make readable.
class Bell {
 public:
  Bell() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  ~Bell() { ::close(descriptor_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

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
  Entry(OpenWatch how, std::function<void()> what, Environment world, std::string name)
      : open(std::move(how)),
        call(std::move(what)),
        environment(std::move(world)),
        store(std::move(name)) {}

  const OpenWatch open;
  const std::function<void()> call;
  const Environment environment;
  const std::string store;
  std::stop_source stop = {};  ///< of opening
  std::atomic<bool> working = false;

  std::mutex mutex = {};  ///< held while the watch is used, a call is made or a log is written
  bool gone = false;
  std::unique_ptr<Watch> watch = {};

  // Of the loop thread alone.
  bool opening = false;
  bool impossible = false;
  Clock::time_point next_open = {};
  int failures = 0;
};

class Watcher::Loop {
 public:
  explicit Loop(Pauses pauses) : pauses_(pauses) {}

  ~Loop() {
    {
      const std::scoped_lock lock{mutex_};
      closing_ = true;
      for (const Shared& entry : entries_) entry->stop.request_stop();
    }
    bell_.ring();
    work_.notify_all();
  }

  void add(const std::shared_ptr<Entry>& entry) {
    const std::scoped_lock lock{mutex_};
    entries_.push_back(entry);
    if (!thread_.joinable()) thread_ = std::jthread{[this] { run(); }};
    bell_.ring();
  }

  void remove(const std::shared_ptr<Entry>& entry) noexcept {
    const std::scoped_lock lock{mutex_};
    std::erase(entries_, entry);
    bell_.ring();
  }

 private:
  // Shared by the subscription, the loop and whoever opens its watch.
  using Shared = std::shared_ptr<Entry>;

  struct Opened {
    Shared entry;
    std::unique_ptr<Watch> watch = {};
    std::string error = {};
    bool impossible = false;
  };

  /// What the loop waits for, and whom each descriptor concerns.
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
  Plan make_plan();
  void add_descriptor(Plan& plan, int descriptor, Clock::time_point now);
  void wait(Plan& plan);
  void rest(int descriptor, Clock::time_point now);
  void ask(Entry& entry);
  void pause(Entry& entry, const std::string& error);
  void open_later(const Shared& entry);

  // The threads that open watches.
  void open_some();
  static Opened open(const Shared& entry);

  const Pauses pauses_;
  const Bell bell_;
  std::mutex mutex_;
  std::condition_variable work_;  ///< for the openers
  std::vector<Shared> entries_;
  std::deque<Shared> to_open_;
  std::vector<Opened> opened_;
  std::size_t idle_openers_ = 0;
  std::atomic<bool> closing_ = false;
  std::unordered_map<int, Rest> rests_;  ///< of the loop thread alone

  std::vector<std::jthread> openers_;  ///< last: they end before anything above is destroyed
  std::jthread thread_;
};

void Watcher::Loop::run() {
  while (!closing_) {
    bell_.silence();
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
  std::vector<Opened> opened;
  {
    const std::scoped_lock lock{mutex_};
    opened.swap(opened_);
  }
  for (Opened& one : opened) {
    Entry& entry = *one.entry;
    const std::scoped_lock lock{entry.mutex};
    entry.opening = false;
    if (entry.gone) continue;
    if (one.watch != nullptr) {
      entry.watch = std::move(one.watch);
      entry.failures = 0;
      entry.working = true;
      entry.environment.write(LogLevel::debug, "watch", {{"store", std::string_view{entry.store}}});
      entry.call();
    } else if (one.impossible) {
      entry.impossible = true;
      entry.environment.write(
          LogLevel::warning, "watch_impossible",
          {{"store", std::string_view{entry.store}}, {"error", std::string_view{one.error}}});
    } else {
      pause(entry, one.error);
    }
  }
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
    if (entry->watch == nullptr) {
      if (entry->next_open <= now) {
        open_later(entry);
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
  // Watches that share a descriptor mostly stand side by side.
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
    if (!entry.watch->changed()) return;
  } catch (const std::exception& error) {
    entry.watch.reset();
    entry.working = false;
    pause(entry, error.what());
  }
  // Also when it has broken: whoever relied on it has to look on its own now.
  entry.call();
}

void Watcher::Loop::pause(Entry& entry, const std::string& error) {
  auto pause = pauses_.first;
  for (int i = 0; i < entry.failures && pause < pauses_.longest; ++i) pause *= 2;
  pause = std::min(pause, pauses_.longest);
  const auto random = entry.environment.random_bits();
  pause = pause / 2 + std::chrono::milliseconds{random % (pause.count() / 2 + 1)};
  ++entry.failures;
  entry.next_open = Clock::now() + pause;
  entry.environment.write(LogLevel::warning, "watch_lost",
                          {{"store", std::string_view{entry.store}},
                           {"error", std::string_view{error}},
                           {"pause_ms", std::int64_t{pause.count()}}});
}

void Watcher::Loop::open_later(const Shared& entry) {
  entry->opening = true;
  const std::scoped_lock lock{mutex_};
  to_open_.push_back(entry);
  if (idle_openers_ < to_open_.size() && openers_.size() < most_openers) {
    openers_.emplace_back([this] { open_some(); });
  }
  work_.notify_one();
}

void Watcher::Loop::open_some() {
  std::unique_lock lock{mutex_};
  for (;;) {
    ++idle_openers_;
    work_.wait(lock, [&] { return closing_ || !to_open_.empty(); });
    --idle_openers_;
    if (closing_) return;
    const Shared entry = std::move(to_open_.front());
    to_open_.pop_front();
    lock.unlock();
    Opened opened = open(entry);
    lock.lock();
    opened_.push_back(std::move(opened));
    bell_.ring();
  }
}

Watcher::Loop::Opened Watcher::Loop::open(const Shared& entry) {
  Opened opened{entry};
  try {
    opened.watch = entry->open(entry->stop.get_token());
  } catch (const WatchImpossible& reason) {
    opened.impossible = true;
    opened.error = reason.what();
  } catch (const std::exception& error) {
    opened.error = error.what();
  }
  return opened;
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

Watcher::Watcher(Pauses pauses) : loop_(std::make_unique<Loop>(pauses)) {}
Watcher::~Watcher() = default;

Watcher::Subscription Watcher::watch(WorkQueue& queue, std::function<void()> call) {
  Database& database = queue.database();
  const BoxName box{queue.options().schema, queue.options().table};
  return watch(database.pool().driver().watch(box), std::move(call), database.environment(),
               database.name());
}

Watcher::Subscription Watcher::watch(OpenWatch open, std::function<void()> call,
                                     Environment environment, std::string store) {
  if (!open) return {};
  auto entry = std::make_shared<Entry>(std::move(open), std::move(call), std::move(environment),
                                       std::move(store));
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

bool Watcher::Subscription::working() const noexcept {
  return entry_ != nullptr && entry_->working;
}

}  // namespace twinbox
