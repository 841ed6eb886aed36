// A chore of many batches: stopped, renewed, lost between two of them.
#include <future>
#include <thread>

#include "support/housekeeping_test.hpp"

namespace twinbox::test {
namespace {

/// A prune of several batches, with something that happens after each.
class LongPrune : public HousekeepingTest {
 protected:
  LongPrune() {
    Environment told = environment();
    told.timing = [this](std::string_view statement, auto, std::size_t) {
      if (statement == "prune") after_batch();
    };
    database_ = std::make_unique<Database>(test_store().address(), DatabaseOptions{}, told);
    inbox_ = std::make_unique<Inbox>(*database_, options());
    for (int i = 0; i < 10; ++i) {
      const auto held =
          inbox_->accept_and_claim(an_arrival("evt_" + std::to_string(i)), worker_a, 30s);
      inbox_->ack(worker_a, held.messages);
    }
    clock().advance(1h);
  }
  std::size_t left() { return Admin{*inbox_}.list({}, 100).entries.size(); }

  std::function<void()> after_batch = [] {};
  std::unique_ptr<Database> database_;
  std::unique_ptr<Inbox> inbox_;
  const LeaseName name{"housekeeping.prune"};
};

TEST_P(LongPrune, PHD_26_works_in_batches) {
  int batches = 0;
  after_batch = [&] { ++batches; };
  EXPECT_EQ(line(Housekeeping(*inbox_, pruning(1h, 3)).step()), "prune done 10");
  EXPECT_EQ(batches, 4);
}

TEST_P(LongPrune, a_stop_request_ends_it_between_two_batches_and_lets_another_go_on) {
  std::stop_source stop;
  after_batch = [&] { stop.request_stop(); };
  Housekeeping house(*inbox_, pruning(1h, 3));
  const HousekeepingReport report = house.step(stop.get_token());
  EXPECT_EQ(line(report), "prune stopped 3");
  EXPECT_EQ(report.next, Duration{0});
  EXPECT_EQ(left(), 7u);
  EXPECT_EQ(line(house.step(stop.get_token())), "");
  Housekeeping other(*inbox_, pruning(1h, 3));
  EXPECT_EQ(line(other.step()), "prune done 7");
}

TEST_P(LongPrune, what_was_stopped_goes_on_at_the_next_step) {
  std::stop_source stop;
  after_batch = [&] { stop.request_stop(); };
  Housekeeping house(*inbox_, pruning(1h, 3));
  house.step(stop.get_token());
  EXPECT_EQ(line(house.step()), "prune done 7");
  EXPECT_EQ(house.stats(Chore::prune).rows, 10u);
}

TEST_P(LongPrune, renews_its_lease_while_it_works) {
  after_batch = [&] { clock().advance(30min); };
  const Instant begin = clock().now();
  EXPECT_EQ(line(Housekeeping(*inbox_, pruning(1h, 3)).step()), "prune done 10");
  EXPECT_GE(clock().now() - begin, 2h);
  const auto holder = NamedLeases{*inbox_}.holder(name);
  ASSERT_TRUE(holder) << "held longer than an hour";
  EXPECT_EQ(holder->lease.epoch, 1);
}

TEST_P(LongPrune, stops_when_its_lease_has_run_out) {
  after_batch = [&] { clock().advance(61min); };
  Housekeeping house(*inbox_, pruning(1h, 3));
  EXPECT_EQ(line(house.step()), "prune lost 3");
  EXPECT_EQ(left(), 7u);
  EXPECT_EQ(house.stats(Chore::prune).runs, 1u);
}

TEST_P(LongPrune, runs_until_it_is_stopped) {
  std::promise<void> pruned;
  Housekeeping house(*inbox_, pruning(1h, 3), [&](const ChoreReport&) { pruned.set_value(); });
  std::jthread running([&](const std::stop_token& stop) { house.run(stop); });
  pruned.get_future().wait();
  running.request_stop();
  running.join();
  EXPECT_EQ(left(), 0u);
}

TWINBOX_ON_EVERY_BACKEND(LongPrune);

}  // namespace
}  // namespace twinbox::test
