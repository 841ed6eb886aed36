// One thread for all watches: who is called, when, and when no more.
#include "dispatch/watcher.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <latch>
#include <mutex>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "database/connection_budget.hpp"
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/stores.hpp>

namespace twinbox::test {
namespace {

using Clock = Watch::Clock;

/// Waits for what other threads bring about.
class Signal {
 public:
  template <class F>
  void change(F body) {
    {
      const std::scoped_lock lock{mutex_};
      body();
    }
    changed_.notify_all();
  }

  template <class F>
  [[nodiscard]] bool wait(F condition) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 60s, condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// A descriptor that the test makes readable.
class Doorbell {
 public:
  Doorbell() : descriptor_(::eventfd(0, EFD_NONBLOCK)) {}
  ~Doorbell() { ::close(descriptor_); }
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  void ring() const { EXPECT_EQ(::eventfd_write(descriptor_, 1), 0); }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool take() const {
    eventfd_t value = 0;
    return ::eventfd_read(descriptor_, &value) == 0;
  }

 private:
  int descriptor_;
};

/// What the test says about one database, and what the watcher did about it. Shared: what is being
/// opened may end after the test.
struct Story {
  Signal signal;
  Doorbell bell;
  int opened = 0;
  int calls = 0;
  int asked = 0;
  int refusals = 0;  ///< so many times opening fails
  bool broken = false;
  bool news = true;       ///< what changed() says when the bell has rung
  bool periodic = false;  ///< asks for looks though the bell is silent

  int rests = 0;
  bool waits = true;

  void call() {
    signal.change([&] { ++calls; });
  }
  [[nodiscard]] bool called(int times) {
    return signal.wait([&] { return calls >= times; });
  }
};

class FakeWatch final : public Watch {
 public:
  explicit FakeWatch(std::shared_ptr<Story> story) : owned_(std::move(story)) {}

  [[nodiscard]] int descriptor() const noexcept override { return story_.bell.descriptor(); }
  bool changed() override {
    bool told = false;
    bool broken = false;
    story_.signal.change([&] {
      ++story_.asked;
      told = story_.bell.take() && story_.news;
      broken = std::exchange(story_.broken, false);
    });
    if (broken) throw DatabaseError(DatabaseError::Kind::connection_lost, "as the test wants it");
    return told;
  }
  [[nodiscard]] std::optional<Clock::time_point> look_again() const override {
    if (!story_.periodic) return {};
    return Clock::time_point{};
  }
  void set_waiting(bool waiting) override {
    story_.signal.change([&] {
      story_.waits = waiting;
      if (!waiting) ++story_.rests;
      if (waiting) story_.bell.ring();  // something was missed
    });
  }

 private:
  std::shared_ptr<Story> owned_;
  Story& story_ = *owned_;
};

OpenWatch how_to_open(const std::shared_ptr<Story>& owned) {
  return [owned](const std::stop_token&) {
    Story& story = *owned;
    bool refused = false;
    story.signal.change([&] {
      ++story.opened;
      refused = story.refusals-- > 0;
    });
    if (refused) throw DatabaseError(DatabaseError::Kind::connection_lost, "as the test wants it");
    return std::make_unique<FakeWatch>(owned);
  };
}

class WatcherTest : public testing::Test {
 protected:
  Watcher::Subscription subscribe(const std::shared_ptr<Story>& story) {
    return watcher_.watch(
        how_to_open(story), [story] { story->call(); },
        {.log = [this](const LogEvent& event) { log_.write(event); }, .log_level = LogLevel::debug},
        "the store");
  }

  LogBook log_;
  Watcher watcher_{Watcher::Times{.first_pause = 1ms, .longest_pause = 4ms, .busy = 0ms}};
};

TEST_F(WatcherTest, calls_once_when_the_watch_is_open_and_then_for_each_change) {
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  const auto subscription = subscribe(owned);
  ASSERT_TRUE(story.called(1));
  EXPECT_TRUE(subscription.working());
  for (int i = 2; i < 20; ++i) {
    story.bell.ring();
    ASSERT_TRUE(story.called(i));
  }
  EXPECT_EQ(story.opened, 1);
}

TEST_F(WatcherTest, does_not_call_when_nothing_has_changed) {
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  const auto subscription = subscribe(owned);
  ASSERT_TRUE(story.called(1));
  story.signal.change([&] { story.news = false; });
  story.bell.ring();
  ASSERT_TRUE(story.signal.wait([&] { return story.asked > 0; }));
  story.signal.change([&] { story.news = true; });
  story.bell.ring();
  ASSERT_TRUE(story.called(2));
  EXPECT_EQ(story.calls, 2);
}

TEST_F(WatcherTest, asks_on_its_own_when_a_watch_wants_it) {
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  story.periodic = true;
  const auto subscription = subscribe(owned);
  EXPECT_TRUE(story.signal.wait([&] { return story.asked > 10; }));
}

TEST_F(WatcherTest, asks_every_watch_of_a_shared_descriptor) {
  // The first that is asked takes the ring; the others must be asked all the same.
  const auto owned = std::make_shared<Story>();
  Story& shared = *owned;
  std::atomic<int> asked[3] = {};
  struct Sharing final : Watch {
    Sharing(Story& one, std::atomic<int>& times) : story(one), count(times) {}
    void set_waiting(bool) override {}
    [[nodiscard]] int descriptor() const noexcept override { return story.bell.descriptor(); }
    bool changed() override {
      story.signal.change([&] {
        static_cast<void>(story.bell.take());
        ++count;
      });
      return false;
    }
    Story& story;
    std::atomic<int>& count;
  };
  std::vector<Watcher::Subscription> subscriptions;
  for (auto& count : asked) {
    subscriptions.push_back(watcher_.watch(
        [&](const std::stop_token&) { return std::make_unique<Sharing>(shared, count); },
        [&] { shared.call(); }));
  }
  ASSERT_TRUE(shared.called(3));
  shared.bell.ring();
  EXPECT_TRUE(shared.signal.wait([&] { return asked[0] > 0 && asked[1] > 0 && asked[2] > 0; }));
}

TEST_F(WatcherTest, a_watch_that_breaks_is_opened_again_and_calls_both_times) {
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  const auto subscription = subscribe(owned);
  ASSERT_TRUE(story.called(1));
  story.signal.change([&] {
    story.refusals = 3;
    story.broken = true;
  });
  story.bell.ring();
  ASSERT_TRUE(story.called(2)) << "who relied on it must look on its own";
  ASSERT_TRUE(story.called(3)) << "something may have been missed";
  EXPECT_TRUE(subscription.working());
  EXPECT_EQ(story.opened, 5);
  const auto lost = log_.events("watch_lost");
  ASSERT_EQ(lost.size(), 4u);
  EXPECT_EQ(lost.front().field("store"), "the store");
  EXPECT_EQ(lost.front().field("error"), "as the test wants it");
  story.bell.ring();
  EXPECT_TRUE(story.called(4));
}

TEST_F(WatcherTest, is_not_working_before_it_is_open) {
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  story.refusals = 1'000'000;
  const auto subscription = subscribe(owned);
  ASSERT_TRUE(story.signal.wait([&] { return story.opened > 3; }));
  EXPECT_FALSE(subscription.working());
  EXPECT_EQ(story.calls, 0);
}

TEST_F(WatcherTest, what_is_impossible_is_said_once_and_not_tried_again) {
  const auto owned = std::make_shared<Story>();
  Story& other = *owned;
  std::atomic<int> tries = 0;
  std::promise<void> tried;
  const auto impossible = watcher_.watch(
      [&](const std::stop_token&) -> std::unique_ptr<Watch> {
        if (tries++ == 0) tried.set_value();
        throw WatchImpossible("because; do this instead");
      },
      [] { ADD_FAILURE() << "called"; },
      {.log = [this](const LogEvent& event) { log_.write(event); }}, "the store");
  tried.get_future().wait();
  const auto subscription = subscribe(owned);
  for (int i = 1; i < 10; ++i) {
    ASSERT_TRUE(other.called(i));
    other.bell.ring();
  }
  EXPECT_EQ(tries, 1);
  EXPECT_FALSE(impossible.working());
  ASSERT_EQ(log_.events("watch_impossible").size(), 1u);
  EXPECT_EQ(log_.events("watch_impossible")[0].field("error"), "because; do this instead");
}

TEST_F(WatcherTest, a_watch_rests_while_its_subscriber_is_busy_and_misses_nothing) {
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  auto subscription = subscribe(owned);
  ASSERT_TRUE(story.called(1));
  for (int round = 1; round < 50; ++round) {
    subscription.set_waiting(false);
    story.bell.ring();
    ASSERT_TRUE(story.signal.wait([&] { return story.rests == round; }));
    EXPECT_TRUE(subscription.working());
    int calls = 0;
    story.signal.change([&] { calls = story.calls; });
    subscription.set_waiting(true);
    ASSERT_TRUE(story.called(calls + 1));
    ASSERT_TRUE(story.signal.wait([&] { return story.waits; }));
  }
}

TEST_F(WatcherTest, a_subscriber_that_is_busy_for_a_moment_only_is_told_all_the_same) {
  Watcher patient{Watcher::Times{.busy = 1h}};
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  auto subscription = patient.watch(how_to_open(owned), [&story] { story.call(); });
  ASSERT_TRUE(story.called(1));
  for (int i = 2; i < 20; ++i) {
    subscription.set_waiting(false);
    story.bell.ring();
    ASSERT_TRUE(story.called(i));
    subscription.set_waiting(true);
  }
  EXPECT_TRUE(story.signal.wait([&] { return story.rests == 0; }));
}

/// Stores that share connections to listen with.
class SharedWatcher : public WatcherTest {
 protected:
  struct Tenant {
    std::shared_ptr<Story> story = std::make_shared<Story>();
    Watcher::Subscription watch = {};
  };

  /// A watch that returns its connection when it is closed.
  class Borrowing final : public Watch {
   public:
    Borrowing(SharedWatcher& test, std::shared_ptr<Story> story)
        : test_(test), watch_(std::move(story)) {}
    ~Borrowing() override {
      test_.signal_.change([&] { ++test_.free_; });
    }
    [[nodiscard]] int descriptor() const noexcept override { return watch_.descriptor(); }
    bool changed() override { return watch_.changed(); }
    void set_waiting(bool waiting) override { watch_.set_waiting(waiting); }

   private:
    SharedWatcher& test_;
    FakeWatch watch_;
  };

  void subscribe(Tenant& tenant, const std::string& name) {
    const auto story = tenant.story;
    const auto open = [this, story](const std::stop_token&) -> std::unique_ptr<Watch> {
      bool granted = false;
      signal_.change([&] {
        granted = free_ > 0;
        free_ -= granted ? 1 : 0;
        refused_ += granted ? 0 : 1;
      });
      if (!granted) return nullptr;
      return std::make_unique<Borrowing>(*this, story);
    };
    tenant.watch = shared_.watch(
        open, [story] { story->call(); }, environment_, name, this);
  }
  bool refused(int times) {
    return signal_.wait([&] { return refused_ >= times; });
  }
  static bool calls_for_news(Tenant& tenant) {
    int before = 0;
    tenant.story->signal.change([&] { before = tenant.story->calls; });
    tenant.story->bell.ring();
    return tenant.story->called(before + 1);
  }

  Environment environment_{.log = [this](const LogEvent& event) { log_.write(event); },
                           .log_level = LogLevel::debug};
  Signal signal_;
  int free_ = 2;
  int refused_ = 0;
  Watcher shared_{Watcher::Times{.first_pause = 1ms, .longest_pause = 4ms, .tenure = 0ms}};
};

TEST_F(SharedWatcher, a_store_whose_poll_finds_work_gets_the_connection_of_the_coldest) {
  Tenant a;
  Tenant b;
  Tenant c;
  subscribe(a, "a");
  ASSERT_TRUE(a.story->called(1));
  subscribe(b, "b");
  ASSERT_TRUE(b.story->called(1));
  subscribe(c, "c");
  ASSERT_TRUE(refused(1));
  EXPECT_FALSE(c.watch.working()) << "it is polled";
  ASSERT_TRUE(calls_for_news(a)) << "a is warmer than b";

  c.watch.found();
  ASSERT_TRUE(c.story->called(1)) << "it listens now";
  EXPECT_TRUE(c.watch.working());
  ASSERT_TRUE(b.story->called(2)) << "who relied on it must look on its own";
  EXPECT_FALSE(b.watch.working());
  EXPECT_TRUE(a.watch.working());
  ASSERT_TRUE(calls_for_news(c));
  const auto closed = log_.events("watch_closed");
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].field("store"), "b");
  EXPECT_EQ(closed[0].field("for"), "c");

  b.watch.found();
  ASSERT_TRUE(b.story->called(3)) << "and now a is the coldest";
  EXPECT_FALSE(a.watch.working());
  EXPECT_TRUE(calls_for_news(c));
}

TEST_F(SharedWatcher, a_connection_that_became_free_is_used_before_one_is_taken_away) {
  Tenant a;
  Tenant b;
  Tenant c;
  subscribe(a, "a");
  ASSERT_TRUE(a.story->called(1));
  subscribe(b, "b");
  ASSERT_TRUE(b.story->called(1));
  subscribe(c, "c");
  ASSERT_TRUE(refused(1));
  b.watch = {};
  c.watch.found();
  ASSERT_TRUE(c.story->called(1));
  EXPECT_TRUE(a.watch.working());
  EXPECT_TRUE(log_.events("watch_closed").empty());
}

TEST_F(SharedWatcher, one_that_was_opened_just_now_is_kept) {
  Watcher patient{Watcher::Times{.tenure = 1h}};
  free_ = 1;
  Tenant a;
  Tenant b;
  const auto subscribe = [&](Tenant& tenant) {
    return patient.watch(
        [this, story = tenant.story](const std::stop_token&) -> std::unique_ptr<Watch> {
          bool granted = false;
          signal_.change([&] {
            granted = free_ > 0;
            free_ -= granted ? 1 : 0;
            refused_ += granted ? 0 : 1;
          });
          if (!granted) return nullptr;
          return std::make_unique<Borrowing>(*this, story);
        },
        [story = tenant.story] { story->call(); }, environment_, {}, this);
  };
  a.watch = subscribe(a);
  ASSERT_TRUE(a.story->called(1));
  b.watch = subscribe(b);
  ASSERT_TRUE(refused(1));
  for (int i = 2; i < 5; ++i) {
    b.watch.found();
    ASSERT_TRUE(refused(i));
    ASSERT_TRUE(calls_for_news(a)) << i;
  }
  EXPECT_TRUE(a.watch.working());
  EXPECT_FALSE(b.watch.working());
  a = {};
  b = {};
}

TEST_F(SharedWatcher, many_that_find_something_at_once_never_have_more_than_there_are) {
  constexpr std::size_t count = 16;
  std::vector<Tenant> tenants(count);
  for (Tenant& tenant : tenants) subscribe(tenant, "one of many");
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < 50; ++round) {
          for (std::size_t i = thread; i < count; i += 4) {
            tenants[i].watch.found();
            tenants[i].story->bell.ring();
          }
        }
      });
    }
  }
  Tenant& last = tenants.back();
  for (int i = 0; !last.watch.working() && i < 1'000'000; ++i) {
    last.watch.found();
    std::this_thread::yield();
  }
  EXPECT_TRUE(last.watch.working());
  tenants.clear();
  signal_.change([&] { EXPECT_EQ(free_, 2); });
}

TEST_F(WatcherTest, without_a_way_to_open_one_it_never_works) {
  const auto subscription = watcher_.watch(OpenWatch{}, [] { ADD_FAILURE() << "called"; });
  EXPECT_FALSE(subscription.working());
}

TEST_F(WatcherTest, a_server_that_does_not_answer_holds_up_nobody) {
  std::atomic<int> stuck = 0;
  std::vector<Watcher::Subscription> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(watcher_.watch(
        [&](const std::stop_token& stop) -> std::unique_ptr<Watch> {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock{mutex};
          ++stuck;
          never.wait(lock, stop, [] { return false; });
          throw DatabaseError(DatabaseError::Kind::cancelled, "stopped");
        },
        [] { ADD_FAILURE() << "called"; }));
  }
  const auto owned = std::make_shared<Story>();
  Story& story = *owned;
  const auto subscription = subscribe(owned);
  ASSERT_TRUE(story.called(1));
  story.bell.ring();
  ASSERT_TRUE(story.called(2));
  silent.clear();  // and their ends need not wait for an answer either
}

TEST_F(WatcherTest, no_call_is_under_way_after_the_end_of_a_subscription) {
  for (int round = 0; round < 200; ++round) {
    const auto owned = std::make_shared<Story>();
    Story& story = *owned;
    auto alive = std::make_unique<std::atomic<int>>(0);
    auto subscription = watcher_.watch(how_to_open(owned), [&story, count = alive.get()] {
      ++*count;  // a use after free, for the sanitizers, should the end not wait
      story.call();
    });
    if (round % 2 == 0) {
      ASSERT_TRUE(story.called(1));
    }
    std::thread ringer{[&] {
      for (int i = 0; i < 20; ++i) story.bell.ring();
    }};
    subscription = {};
    alive.reset();
    EXPECT_FALSE(subscription.working());
    ringer.join();
  }
}

TEST_F(WatcherTest, many_threads_subscribe_and_end_at_once) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const auto owned = std::make_shared<Story>();
        Story& story = *owned;
        const auto subscription = watcher_.watch(how_to_open(owned), [&story] { story.call(); });
        ASSERT_TRUE(story.called(1));
        story.bell.ring();
        ASSERT_TRUE(story.called(2));
      }
    });
  }
}

TEST_F(WatcherTest, the_process_has_one_as_long_as_somebody_has_it) {
  const auto one = Watcher::shared();
  EXPECT_EQ(one, Watcher::shared());
}

/// The real thing, through a box.
class BoxWatcher : public BoxTest {
 protected:
  /// Called when others may have written, and counted.
  Watcher::Subscription count_calls() {
    return watcher_->watch(outbox(), [this] { signal_.change([&] { ++calls_; }); });
  }
  int calls() {
    int now = 0;
    signal_.change([&] { now = calls_; });
    return now;
  }
  bool called_after(int before) {
    return signal_.wait([&] { return calls_ > before; });
  }

  Signal signal_;
  int calls_ = 0;
  std::shared_ptr<Watcher> watcher_ = Watcher::shared();
};

TEST_P(BoxWatcher, calls_when_somebody_else_has_enqueued) {
  auto subscription = count_calls();
  if (GetParam() == Backend::sqlite_memory) {
    EXPECT_FALSE(subscription.working()) << "nobody else can be there";
    return;
  }
  ASSERT_TRUE(called_after(0));
  EXPECT_TRUE(subscription.working());
  Database other(test_store().address(), {}, environment());
  Outbox theirs(other, options());
  for (int i = 0; i < 5; ++i) {
    const int before = calls();
    theirs.enqueue(a_message());
    ASSERT_TRUE(called_after(before)) << i;
    EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  }
}

TEST_P(BoxWatcher, calls_for_what_was_enqueued_while_nobody_waited) {
  if (GetParam() == Backend::sqlite_memory) return;
  watcher_ = std::make_shared<Watcher>(Watcher::Times{.busy = 0ms});
  auto subscription = count_calls();
  ASSERT_TRUE(called_after(0));
  Database other(test_store().address(), {}, environment());
  Outbox theirs(other, options());
  for (int i = 0; i < 5; ++i) {
    subscription.set_waiting(false);
    for (int j = 0; j < 3; ++j) theirs.enqueue(a_message());
    const int before = calls();
    theirs.enqueue(a_message());
    subscription.set_waiting(true);
    ASSERT_TRUE(called_after(before)) << i;
  }
  subscription = {};
}

// On SQL Server nobody is told what others commit.
TWINBOX_ON_BACKENDS(BoxWatcher, Backend::sqlite_file, Backend::sqlite_memory, Backend::postgres);

class ServerWatcher : public BoxWatcher {};

TEST_P(ServerWatcher, two_stores_take_turns_with_one_connection_to_listen_with) {
  ConnectionBudgets budgets{{.per_server = 4, .files = 4},
                            [] { return ConnectionBudget::Time{0}; }};
  Watcher watcher{Watcher::Times{.tenure = 0ms}};
  std::vector<std::unique_ptr<Store>> stores;
  std::vector<Watcher::Subscription> subscriptions(2);
  for (const char* name : {"a", "b"}) {
    stores.push_back(std::make_unique<Store>(
        StoreDefinition{.name = name, .address = test_store().address(), .outbox = options()},
        environment(), &budgets));
  }
  int calls[2] = {};
  const auto subscribe = [&](std::size_t i) {
    subscriptions[i] =
        watcher.watch(stores[i]->outbox(), [&, i] { signal_.change([&] { ++calls[i]; }); });
  };
  const auto called = [&](std::size_t i, int before) {
    return signal_.wait([&] { return calls[i] > before; });
  };
  subscribe(0);
  ASSERT_TRUE(called(0, 0));
  subscribe(1);
  for (std::size_t turn = 1; turn < 8; ++turn) {
    const std::size_t mine = turn % 2;
    int before = 0;
    // As often as the dispatcher would: the first may come before the refusal.
    while (!subscriptions[mine].working()) {
      subscriptions[mine].found();
      std::this_thread::yield();
    }
    EXPECT_FALSE(subscriptions[1 - mine].working());
    signal_.change([&] { before = calls[mine]; });
    outbox().enqueue(a_message());
    ASSERT_TRUE(called(mine, before)) << turn;
  }
  subscriptions.clear();
}

TWINBOX_ON_BACKENDS(ServerWatcher, Backend::postgres);

class PostgresRestart : public BoxWatcher {};

TEST_P(PostgresRestart, a_watch_comes_back_with_the_server) {
  watcher_ = std::make_shared<Watcher>(Watcher::Times{.first_pause = 10ms, .longest_pause = 50ms});
  auto subscription = count_calls();
  ASSERT_TRUE(called_after(0));
  const int before = calls();
  ASSERT_EQ(std::system(test_setting("TWINBOX_TEST_POSTGRES_RESTART").c_str()), 0);
  ASSERT_TRUE(called_after(before)) << "told that it has broken";
  ASSERT_TRUE(called_after(before + 1)) << "told that it is open again";
  EXPECT_TRUE(subscription.working());
  EXPECT_GE(log().events("watch_lost").size(), 1u);
  const int since = calls();
  outbox().enqueue(a_message());
  EXPECT_TRUE(called_after(since));
  subscription = {};
}

TWINBOX_ON_BACKENDS(PostgresRestart, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
