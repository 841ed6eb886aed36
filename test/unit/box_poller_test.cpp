#include "dispatch/box_poller.hpp"

#include <future>
#include <latch>

#include <gtest/gtest.h>

#include "twinbox/outbox.hpp"
#include "twinbox/testing.hpp"

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;

class BoxPollerBackoff : public ::testing::Test {
 protected:
  Duration longest_rest(const std::exception& error) {
    BoxPoller poller{{.key = this, .store = "north", .open = {}}, parts_};
    Duration longest{};
    for (int i = 0; i < 40; ++i) longest = std::max(longest, poller.backoff_after(error));
    return longest;
  }

  std::uint64_t chance_ = 0;
  const Handlers handlers_{};
  const DispatcherOptions options_{.restart_delay = 7s};
  const DispatchObserver observer_{};
  const Environment environment_{.random = [this] { return chance_ += 0x9E3779B97F4A7C15U; },
                                 .log = [](const LogEvent&) {}};
  const OwnerToken owner_ = OwnerToken::make(environment_);
  const std::string announcement_{};
  const std::atomic<int> box_pollers_ = 1;
  const BoxPollerContext parts_{handlers_,    options_,      observer_,   owner_,
                                environment_, announcement_, box_pollers_};
};

TEST_F(BoxPollerBackoff, grows_from_a_quarter_of_a_second_and_begins_anew_once_it_works) {
  BoxPoller poller{{.key = this, .store = "north", .open = {}}, parts_};
  const DatabaseError error{DatabaseError::Kind::contention, "busy"};
  EXPECT_LE(poller.backoff_after(error), 250ms);
  EXPECT_GE(poller.backoff_after(error), 250ms);
  EXPECT_GE(poller.backoff_after(error), 500ms);
  poller.works();
  EXPECT_LE(poller.backoff_after(error), 250ms);
}

TEST_F(BoxPollerBackoff, ends_within_five_seconds_where_the_database_could_not_be_reached) {
  const Duration rest = longest_rest(DatabaseError{DatabaseError::Kind::connection_lost, "down"});
  EXPECT_GT(rest, 2s);
  EXPECT_LE(rest, 4s);
}

TEST_F(BoxPollerBackoff, ends_within_five_seconds_where_the_server_takes_no_writes_for_now) {
  using Kind = DatabaseError::Kind;
  for (const Kind kind : {Kind::read_only, Kind::not_synchronous}) {
    const Duration rest = longest_rest(DatabaseError{kind, "switchover"});
    EXPECT_GT(rest, 2s) << to_string(kind);
    EXPECT_LE(rest, 4s) << to_string(kind);
  }
}

TEST_F(BoxPollerBackoff, is_half_a_minute_at_most_after_other_errors_of_the_database) {
  const Duration rest = longest_rest(DatabaseError{DatabaseError::Kind::missing_schema, "gone"});
  EXPECT_GT(rest, 15s);
  EXPECT_LE(rest, 30s);
}

TEST_F(BoxPollerBackoff, is_the_restart_delay_after_what_is_no_error_of_the_database) {
  EXPECT_EQ(longest_rest(std::runtime_error("crash")), 7s);
}

#if TWINBOX_SQLITE
TEST(BoxPollerHeartbeat, tells_what_was_done_and_what_failed) {
  Database database{"sqlite::memory:", {}, {.log = [](const LogEvent&) {}}};
  Outbox outbox{database, {.deploy_schema = true}};
  Handlers handlers;
  int calls = 0;
  handlers.on(Topic{"a"},
              [&](const Message&) { return ++calls > 2 ? Outcome::retry("no") : Outcome::done(); });
  const DispatcherOptions options{};
  int told = 0;
  const DispatchObserver observer{.failed = [&](auto, auto&, auto) { ++told; }};
  const OwnerToken owner = OwnerToken::make({});
  const Environment environment{};
  const std::string announcement;
  const std::atomic<int> box_pollers = 1;
  BoxPoller poller{{.key = &outbox,
                    .store = "north",
                    .open =
                        [&] {
                          return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &outbox};
                        }},
                   {handlers, options, observer, owner, environment, announcement, box_pollers}};
  for (int i = 0; i < 3; ++i) outbox.enqueue({.topic = Topic{"a"}, .payload = {}});
  std::vector<Settlement> settlements;
  for (const Message& message : poller.claim_once(10)) {
    CallWatch watch;
    const auto verdicts = poller.caller().call(std::span{&message, 1}, watch);
    settlements.push_back({std::make_shared<Message>(message), verdicts.front().value()});
  }
  ASSERT_EQ(settlements.size(), 3u);
  poller.write_down(settlements);
  poller.send_heartbeat(false);
  const std::vector<Worker> all = Workers{outbox}.list();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].owner, owner);
  EXPECT_EQ(all[0].done, 2);
  EXPECT_EQ(all[0].failed, 1);
  EXPECT_EQ(told, 1) << "whoever listens is told as well";
}

TEST(BoxPollerOpening, that_lasts_is_waited_for_by_nobody_who_only_asks_whether_it_is_over) {
  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  const Handlers handlers{};
  const DispatcherOptions options{};
  const DispatchObserver observer{};
  const OwnerToken owner = OwnerToken::make({});
  const Environment environment{};
  const std::string announcement;
  const std::atomic<int> box_pollers = 1;
  std::latch begun{1};
  std::latch on_progress{1};
  BoxPoller poller{{.key = &outbox,
                    .store = "north",
                    .open =
                        [&] {
                          begun.count_down();
                          on_progress.wait();
                          return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &outbox};
                        }},
                   {handlers, options, observer, owner, environment, announcement, box_pollers}};
  auto opening = std::async(std::launch::async, [&] { return &poller.queue(); });
  begun.wait();
  auto asking = std::async(std::launch::async, [&] { return poller.opened(); });
  EXPECT_EQ(asking.wait_for(30s), std::future_status::ready) << "others have chores, too";
  on_progress.count_down();
  EXPECT_EQ(asking.get(), nullptr);
  EXPECT_EQ(opening.get(), &outbox);
  EXPECT_EQ(poller.opened(), &outbox);
}

TEST(BoxPollerSlot, that_ran_out_unnoticed_is_lost_even_when_it_is_free_to_be_taken_again) {
  ManualClock clock;
  const Environment environment{.clock = [&] { return std::optional{clock.now()}; },
                                .log = [](const LogEvent&) {}};
  Database database{"sqlite::memory:", {}, environment};
  Outbox outbox{database, {.deploy_schema = true}};
  const Handlers handlers{};
  const DispatcherOptions options{.lease = 30s, .processors = 1};
  const DispatchObserver observer{};
  const OwnerToken owner = OwnerToken::make(environment);
  const std::string announcement;
  const std::atomic<int> box_pollers = 1;
  BoxPoller poller{{.key = &outbox,
                    .store = "north",
                    .open =
                        [&] {
                          return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &outbox};
                        }},
                   {handlers, options, observer, owner, environment, announcement, box_pollers}};
  EXPECT_TRUE(poller.hold_slot());
  clock.advance(29s);
  EXPECT_TRUE(poller.hold_slot());
  clock.advance(31s);
  EXPECT_FALSE(poller.hold_slot());  // somebody else may have worked in the meantime
  EXPECT_TRUE(poller.hold_slot());
}
#endif

}  // namespace
}  // namespace twinbox::test
