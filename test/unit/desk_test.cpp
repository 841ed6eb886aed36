#include "dispatch/desk.hpp"

#include <future>
#include <latch>

#include <gtest/gtest.h>

#include "twinbox/outbox.hpp"
#include "twinbox/testing.hpp"

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;

class DeskRest : public ::testing::Test {
 protected:
  Duration longest_rest(const std::exception& error) {
    Desk desk{{.key = this, .store = "north", .open = {}}, parts_};
    Duration longest{};
    for (int i = 0; i < 40; ++i) longest = std::max(longest, desk.rest_after(error));
    return longest;
  }

  std::uint64_t chance_ = 0;
  const Handlers handlers_{};
  const DispatcherOptions options_{.restart_delay = 7s};
  const DispatchObserver observer_{};
  const Environment environment_{.random = [this] { return chance_ += 0x9E3779B97F4A7C15U; }};
  const OwnerToken owner_ = OwnerToken::make(environment_);
  const std::string announcement_{};
  const std::atomic<int> desks_ = 1;
  const DeskParts parts_{handlers_,    options_,      observer_, owner_,
                         environment_, announcement_, desks_};
};

TEST_F(DeskRest, grows_from_a_quarter_of_a_second_and_begins_anew_once_it_works) {
  Desk desk{{.key = this, .store = "north", .open = {}}, parts_};
  const DatabaseError error{DatabaseError::Kind::contention, "busy"};
  EXPECT_LE(desk.rest_after(error), 250ms);
  EXPECT_GE(desk.rest_after(error), 250ms);
  EXPECT_GE(desk.rest_after(error), 500ms);
  desk.works();
  EXPECT_LE(desk.rest_after(error), 250ms);
}

TEST_F(DeskRest, ends_within_five_seconds_where_the_database_could_not_be_reached) {
  const Duration rest = longest_rest(DatabaseError{DatabaseError::Kind::connection_lost, "down"});
  EXPECT_GT(rest, 2s);
  EXPECT_LE(rest, 4s);
}

TEST_F(DeskRest, ends_within_five_seconds_where_the_server_takes_no_writes_for_now) {
  using Kind = DatabaseError::Kind;
  for (const Kind kind : {Kind::read_only, Kind::not_synchronous}) {
    const Duration rest = longest_rest(DatabaseError{kind, "switchover"});
    EXPECT_GT(rest, 2s) << to_string(kind);
    EXPECT_LE(rest, 4s) << to_string(kind);
  }
}

TEST_F(DeskRest, is_half_a_minute_at_most_after_other_errors_of_the_database) {
  const Duration rest = longest_rest(DatabaseError{DatabaseError::Kind::missing_schema, "gone"});
  EXPECT_GT(rest, 15s);
  EXPECT_LE(rest, 30s);
}

TEST_F(DeskRest, is_the_restart_delay_after_what_is_no_error_of_the_database) {
  EXPECT_EQ(longest_rest(std::runtime_error("crash")), 7s);
}

#if TWINBOX_SQLITE
TEST(DeskPresence, tells_what_was_done_and_what_failed) {
  Database database{"sqlite::memory:"};
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
  const std::atomic<int> desks = 1;
  Desk desk{{.key = &outbox,
             .store = "north",
             .open =
                 [&] {
                   return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &outbox};
                 }},
            {handlers, options, observer, owner, environment, announcement, desks}};
  for (int i = 0; i < 3; ++i) outbox.enqueue({.topic = Topic{"a"}, .payload = {}});
  std::vector<Settlement> settlements;
  for (const Message& message : desk.claim_once(10)) {
    CallWatch watch;
    const auto verdicts = desk.caller().call(std::span{&message, 1}, watch);
    settlements.push_back({std::make_shared<Message>(message), verdicts.front().value()});
  }
  ASSERT_EQ(settlements.size(), 3u);
  desk.write_down(settlements);
  desk.tell_presence(false);
  const std::vector<Worker> all = Workers{outbox}.list();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].owner, owner);
  EXPECT_EQ(all[0].done, 2);
  EXPECT_EQ(all[0].failed, 1);
  EXPECT_EQ(told, 1) << "whoever listens is told as well";
}

TEST(DeskOpening, that_lasts_is_waited_for_by_nobody_who_only_asks_whether_it_is_over) {
  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  const Handlers handlers{};
  const DispatcherOptions options{};
  const DispatchObserver observer{};
  const OwnerToken owner = OwnerToken::make({});
  const Environment environment{};
  const std::string announcement;
  const std::atomic<int> desks = 1;
  std::latch begun{1};
  std::latch go_on{1};
  Desk desk{{.key = &outbox,
             .store = "north",
             .open =
                 [&] {
                   begun.count_down();
                   go_on.wait();
                   return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &outbox};
                 }},
            {handlers, options, observer, owner, environment, announcement, desks}};
  auto opening = std::async(std::launch::async, [&] { return &desk.queue(); });
  begun.wait();
  auto asking = std::async(std::launch::async, [&] { return desk.opened(); });
  EXPECT_EQ(asking.wait_for(30s), std::future_status::ready) << "others have chores, too";
  go_on.count_down();
  EXPECT_EQ(asking.get(), nullptr);
  EXPECT_EQ(opening.get(), &outbox);
  EXPECT_EQ(desk.opened(), &outbox);
}

TEST(DeskPlace, that_ran_out_unnoticed_is_lost_even_when_it_is_free_to_be_taken_again) {
  ManualClock clock;
  const Environment environment{.clock = [&] { return std::optional{clock.now()}; }};
  Database database{"sqlite::memory:", {}, environment};
  Outbox outbox{database, {.deploy_schema = true}};
  const Handlers handlers{};
  const DispatcherOptions options{.lease = 30s, .processors = 1};
  const DispatchObserver observer{};
  const OwnerToken owner = OwnerToken::make(environment);
  const std::string announcement;
  const std::atomic<int> desks = 1;
  Desk desk{{.key = &outbox,
             .store = "north",
             .open =
                 [&] {
                   return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &outbox};
                 }},
            {handlers, options, observer, owner, environment, announcement, desks}};
  EXPECT_TRUE(desk.keep_place());
  clock.advance(29s);
  EXPECT_TRUE(desk.keep_place());
  clock.advance(31s);
  EXPECT_FALSE(desk.keep_place());  // somebody else may have worked in the meantime
  EXPECT_TRUE(desk.keep_place());
}
#endif

}  // namespace
}  // namespace twinbox::test
