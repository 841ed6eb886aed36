// Housekeeping, stepped by hand: what is due is done by one process, in batches, and failures wait
// for the next interval.
#include "support/housekeeping_test.hpp"

#include <future>
#include <mutex>
#include <thread>
#include <tuple>

#include <twinbox/channel.hpp>
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

using End = ChoreReport::End;

class House : public HousekeepingTest {};

TEST_P(House, OBX_053_reaps_now_and_then) {
  REQUIREMENT("IBX-072, PHD-12");
  outbox().enqueue(a_message());
  Housekeeping house(outbox());
  house.step();
  const auto stuck = outbox().claim(worker_a, 10s, 1);
  ASSERT_EQ(stuck.size(), 1u);
  clock().advance(29s);
  EXPECT_EQ(line(house.step()), "") << "not due yet";
  EXPECT_EQ(read("select Status from {schema}outbox"), "1");
  clock().advance(1s);
  EXPECT_EQ(line(house.step()), "reap done 1, expire done 0");
  EXPECT_EQ(read("select Status from {schema}outbox"), "0");
  EXPECT_EQ(read("select OwnerToken from {schema}outbox"), "null");
  const auto again = outbox().claim(worker_b, 30s, 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(outbox().ack(worker_a, stuck), 0u);
  EXPECT_EQ(outbox().ack(worker_b, again), 1u);
}

TEST_P(House, PHD_12_a_delivery_whose_worker_is_gone_becomes_claimable_and_keeps_its_attempts) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}};
  inbox().accept(an_arrival(), handlers);
  const Duration stuck_threshold = 5min;
  ASSERT_EQ(inbox().claim(worker_a, stuck_threshold, 1).size(), 1u);
  Housekeeping house(inbox());
  EXPECT_EQ(line(house.step()), "reap done 0, expire done 0, prune done 0");
  clock().advance(stuck_threshold);
  house.step();
  EXPECT_EQ(delivery().state, DeliveryState::ready);
  EXPECT_EQ(delivery().attempts, 0);
  EXPECT_EQ(inbox().claim(worker_b, 30s, 1).size(), 1u);
}

TEST_P(House, expires_what_is_past_its_time) {
  Arrival late = an_arrival();
  late.extras.expires_at = clock().now() + 10s;
  inbox().accept(late);
  Housekeeping house(inbox(), only(Chore::expire));
  EXPECT_EQ(line(house.step()), "expire done 0");
  clock().advance(30s);
  EXPECT_EQ(line(house.step()), "expire done 1");
  EXPECT_EQ(delivery().state, DeliveryState::dead);
  EXPECT_EQ(delivery().reason, "expired");
}

TEST_P(House, PHD_26_does_each_chore_on_its_own_interval) {
  Housekeeping house(inbox());
  const HousekeepingReport first = house.step();
  EXPECT_EQ(line(first), "reap done 0, expire done 0, prune done 0");
  EXPECT_EQ(first.next, Duration{30s});
  clock().advance(20s);
  const HousekeepingReport early = house.step();
  EXPECT_EQ(line(early), "");
  EXPECT_EQ(early.next, Duration{10s});
  int prunes = 0;
  int reaps = 0;
  for (Duration passed = 20s; passed < Duration{2h}; passed += 10s) {
    clock().advance(10s);
    for (const ChoreReport& chore : house.step().chores) {
      prunes += chore.chore == Chore::prune;
      reaps += chore.chore == Chore::reap;
      EXPECT_EQ(chore.end, End::done);
    }
  }
  EXPECT_EQ(prunes, 2);
  EXPECT_EQ(reaps, 2 * 120);
  EXPECT_EQ(house.stats(Chore::prune).runs, 3u);
}

TEST_P(House, PHD_26_of_many_processes_one_cleans_up_per_interval) {
  constexpr int processes = 4;
  std::vector<std::unique_ptr<Housekeeping>> houses;
  for (std::size_t i = 0; i < processes; ++i)
    houses.push_back(std::make_unique<Housekeeping>(other_inbox(i)));
  for (int interval = 0; interval < 5; ++interval) {
    std::atomic<int> done = 0;
    std::atomic<int> elsewhere = 0;
    race(processes, [&](int process) {
      for (const ChoreReport& chore : houses[static_cast<std::size_t>(process)]->step().chores) {
        ++(chore.end == End::done ? done : elsewhere);
        EXPECT_TRUE(chore.end == End::done || chore.end == End::elsewhere) << chore.error;
      }
    });
    EXPECT_EQ(done, 3) << "each chore once";
    EXPECT_EQ(elsewhere, 3 * (processes - 1));
    clock().advance(1h);
  }
}

TEST_P(House, a_process_that_starts_within_the_interval_does_not_clean_up_again) {
  {
    Housekeeping first(inbox());
    first.step();
  }
  Housekeeping second(inbox());
  EXPECT_EQ(line(second.step()), "reap elsewhere 0, expire elsewhere 0, prune elsewhere 0");
  EXPECT_EQ(second.stats(Chore::prune).elsewhere, 1u);
  EXPECT_EQ(second.stats(Chore::prune).runs, 0u);
  clock().advance(30s);
  EXPECT_EQ(line(second.step()), "reap done 0, expire done 0") << "the first one is gone";
  clock().advance(1h);
  EXPECT_EQ(line(second.step()), "reap done 0, expire done 0, prune done 0");
}

TEST_P(House, PHD_25_deletes_what_is_finished_and_old_and_nothing_else) {
  REQUIREMENT("EVB-31");
  make_done(an_arrival("done"));
  inbox().accept(an_arrival("discarded"));
  Admin{inbox()}.discard(Filter{.state = StateFilter::open}, {.reason = "test"});
  ASSERT_TRUE(inbox().try_claim(a_key("marked"), Topic{"t"}));
  make_dead(an_arrival("dead"));
  std::ignore = inbox().already_processed(a_key("seen"));
  inbox().accept(an_arrival("open"));
  std::ignore = inbox().accept_and_claim(an_arrival("leased"), worker_a, 10s);
  clock().advance(1h);
  make_done(an_arrival("young"));
  clock().advance(24h - 1s);
  Housekeeping house(inbox(), pruning(24h));
  EXPECT_EQ(line(house.step()), "prune done 3");
  for (const char* gone : {"done", "discarded", "marked"})
    EXPECT_EQ(inbox().state(a_key(gone)), std::nullopt) << gone;
  EXPECT_EQ(inbox().state(a_key("dead")), MessageState::dead);
  EXPECT_EQ(inbox().state(a_key("seen")), MessageState::seen);
  EXPECT_EQ(inbox().state(a_key("open")), MessageState::open);
  EXPECT_EQ(inbox().state(a_key("leased")), MessageState::open);
  EXPECT_EQ(inbox().state(a_key("young")), MessageState::done);
  EXPECT_EQ(house.stats(Chore::prune).rows, 3u);
  clock().advance(1000 * 24h);
  EXPECT_EQ(line(house.step()), "prune done 1") << "the young one";
  EXPECT_EQ(rows("message"), "4");
}

TEST_P(House, PHD_25_a_redelivery_after_cleanup_never_runs_a_finished_handler_again) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"stock"}}};
  inbox().accept(an_arrival(), handlers);
  const auto both = inbox().claim(worker_a, 30s, 2);
  ASSERT_EQ(both.size(), 2u);
  ASSERT_EQ(inbox().ack(worker_a, both[0]), 1u);
  ASSERT_EQ(inbox().fail(worker_a, both[1], "poisoned"), 1u);
  Housekeeping house(inbox(), HousekeepingOptions::per_handler(24h));
  clock().advance(48h);
  house.step();
  EXPECT_TRUE(inbox().accept(an_arrival(), handlers).duplicate());
  EXPECT_TRUE(inbox().claim(worker_b, 30s, 10).empty());
  EXPECT_EQ(detail().deliveries.size(), 2u);
  ASSERT_EQ(Admin{inbox()}.requeue(Filter{.state = StateFilter::dead}), 1u);
  ASSERT_EQ(inbox().ack(worker_b, inbox().claim(worker_b, 30s, 10)), 1u);
  clock().advance(1h);
  house.step();
  EXPECT_TRUE(inbox().accept(an_arrival(), handlers).duplicate()) << "the last one is young";
  clock().advance(24h);
  house.step();
  EXPECT_EQ(inbox().state(a_key()), std::nullopt);
}

TEST_P(House, PHD_26_per_handler_delivery_prunes_hourly_in_batches_of_10000_when_it_is_asked_to) {
  REQUIREMENT("PHD-25");
  const auto defaults = HousekeepingOptions::per_handler();
  EXPECT_FALSE(defaults.prune.enabled) << "no retention by default";
  EXPECT_EQ(defaults.prune.interval, Duration{1h});
  EXPECT_EQ(defaults.prune.batch, 10'000);
  EXPECT_TRUE(HousekeepingOptions::per_handler(24h).prune.enabled);
  make_done();
  clock().advance(1000 * 24h);
  EXPECT_EQ(line(Housekeeping(inbox(), defaults).step()), "reap done 0, expire done 0");
  EXPECT_EQ(line(Housekeeping(inbox(), HousekeepingOptions::per_handler(24h)).step()),
            "reap elsewhere 0, expire elsewhere 0, prune done 1");
}

TEST_P(House, PHD_26_prune_has_a_lock_of_its_own_whose_name_can_be_chosen) {
  HousekeepingOptions chosen = pruning(24h);
  chosen.lease_name = LeaseName{"nightly"};
  Housekeeping house(inbox(), chosen);
  const auto other = NamedLeases{inbox()}.try_acquire(LeaseName{"nightly.prune"}, worker_a, 1h);
  ASSERT_TRUE(other);
  EXPECT_EQ(line(house.step()), "prune elsewhere 0");
  ASSERT_TRUE(NamedLeases{inbox()}.release(*other));
  EXPECT_EQ(line(Housekeeping(inbox(), pruning(24h)).step()), "prune done 0") << "another name";
  clock().advance(1h);
  EXPECT_EQ(line(house.step()), "prune done 0");
  EXPECT_TRUE(NamedLeases{inbox()}.holder(LeaseName{"nightly.prune"}));
}

TEST_P(House, MBH_10_marks_are_kept_for_seven_days_to_the_second_and_cleaned_up_hourly) {
  const auto defaults = HousekeepingOptions::at_most_once();
  EXPECT_EQ(defaults.retention, Duration{7 * 24h});
  EXPECT_EQ(defaults.prune.interval, Duration{1h});
  EXPECT_EQ(defaults.prune.batch, 1000);
  const Topic type{"t"};
  ASSERT_TRUE(inbox().try_claim(a_key(), type));
  clock().advance(1s);
  ASSERT_TRUE(inbox().try_claim(a_key("evt_2"), type));
  clock().advance(7 * 24h - 1s);
  Housekeeping house(inbox(), defaults);
  EXPECT_EQ(line(house.step()), "reap done 0, expire done 0, prune done 1");
  EXPECT_TRUE(inbox().try_claim(a_key(), type)) << "forgotten after its seven days";
  EXPECT_FALSE(inbox().try_claim(a_key("evt_2"), type)) << "a second too young";
  clock().advance(1h);
  EXPECT_EQ(line(house.step()), "reap done 0, expire done 0, prune done 1");
}

/// Runs a dispatcher until it has pruned. Returns how many messages that were.
std::size_t pruned_by(Inbox& inbox, const DispatcherOptions& options) {
  std::promise<ChoreReport> pruned;
  DispatchObserver observer;
  observer.chore = [&, once = std::make_shared<std::once_flag>()](std::string_view,
                                                                  const ChoreReport& report) {
    if (report.chore == Chore::prune) std::call_once(*once, [&] { pruned.set_value(report); });
  };
  Dispatcher dispatcher{inbox, Handlers{}, options, observer};
  const std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  const ChoreReport report = pruned.get_future().get();
  EXPECT_EQ(report.end, ChoreReport::End::done);
  return report.count;
}

TEST_P(House, MBH_10_a_dispatcher_with_the_presets_of_at_most_once_keeps_seven_days) {
  Inbox once(database(), at_most_once_box(options()));
  ASSERT_TRUE(once.try_claim(a_key(), Topic{"t"}));
  clock().advance(7 * 24h - 1us);
  EXPECT_EQ(pruned_by(once, at_most_once_dispatcher()), 0u);
  clock().advance(1h);
  EXPECT_EQ(pruned_by(once, at_most_once_dispatcher()), 1u);
  EXPECT_TRUE(once.try_claim(a_key(), Topic{"t"}));
  const HousekeepingOptions preset = at_most_once_dispatcher().housekeeping.value();
  EXPECT_EQ(preset.prune.interval, Duration{1h});
  // What was set before stays.
  EXPECT_EQ(at_most_once_box({.retention = 24h}).retention, Duration{24h});
  EXPECT_FALSE(at_most_once_dispatcher({.housekeeping = std::nullopt}).housekeeping);
}

TEST_P(House,
       PHD_25_a_dispatcher_with_the_presets_of_per_handler_delivery_prunes_what_it_is_told_to) {
  Inbox each(database(), per_handler_box(options()));
  const auto claimed = each.accept_and_claim(an_arrival(), worker_a, 30s);
  ASSERT_EQ(each.ack(worker_a, claimed.messages), 1u);
  clock().advance(1000 * 24h);
  EXPECT_EQ(pruned_by(each, per_handler_dispatcher()), 0u) << "no retention by default";
  clock().advance(1h);
  HousekeepingOptions daily;
  daily.retention = 24h;
  EXPECT_EQ(pruned_by(each, per_handler_dispatcher({.housekeeping = daily})), 1u);
}

TEST_P(House, EVB_09_one_call_gives_a_dispatcher_the_defaults_of_the_event_bus) {
  const BoxOptions box = event_bus_box({.table = "mine"});
  EXPECT_EQ(box.table, "mine");
  EXPECT_EQ(box.retention, Duration{7 * 24h});
  EXPECT_EQ(box.retry.first_delay, 1min);
  EXPECT_EQ(box.retry.max_attempts, 5);
  const DispatcherOptions sending = event_bus_dispatcher(BoxKind::outbox, {.workers = 7});
  EXPECT_EQ(sending.workers, 7);
  EXPECT_EQ(sending.batch, 100);
  EXPECT_EQ(sending.poll_interval, Duration{30s});
  EXPECT_EQ(sending.housekeeping.value().prune.batch, 100);
  EXPECT_EQ(sending.housekeeping.value().prune.interval, Duration{30s});
  const DispatcherOptions receiving = event_bus_dispatcher(BoxKind::inbox);
  EXPECT_EQ(receiving.housekeeping.value().prune.batch, 1000);
  EXPECT_EQ(receiving.housekeeping.value().prune.interval, Duration{1h});
  EXPECT_FALSE(receiving.housekeeping.value().retention) << "the box's";
  EXPECT_NO_THROW(Dispatcher(outbox(), Handlers{}, sending));
  EXPECT_NO_THROW(Dispatcher(inbox(), Handlers{}, receiving));
}

TEST_P(House, EVB_09_the_event_bus_keeps_seven_days_in_outbox_and_inbox) {
  REQUIREMENT("EVB-31");
  const auto of_outbox = HousekeepingOptions::event_bus_outbox();
  EXPECT_EQ(of_outbox.retention, Duration{7 * 24h});
  EXPECT_EQ(of_outbox.prune.batch, 100);
  EXPECT_EQ(of_outbox.prune.interval, Duration{30s});
  const auto of_inbox = HousekeepingOptions::event_bus_inbox();
  EXPECT_EQ(of_inbox.retention, Duration{7 * 24h});
  EXPECT_EQ(of_inbox.prune.batch, 1000);
  EXPECT_EQ(of_inbox.prune.interval, Duration{1h});
  outbox().enqueue(a_message());
  ASSERT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1)), 1u);
  make_done();
  clock().advance(7 * 24h - 30s);
  Housekeeping sent(outbox(), of_outbox);
  Housekeeping received(inbox(), of_inbox);
  EXPECT_EQ(line(sent.step()), "reap done 0, expire done 0, prune done 0");
  EXPECT_EQ(line(received.step()), "reap done 0, expire done 0, prune done 0");
  clock().advance(30s);
  EXPECT_EQ(line(sent.step()), "reap done 0, expire done 0, prune done 1");
  EXPECT_EQ(line(received.step()), "reap done 0, expire done 0") << "hourly";
  clock().advance(1h);
  EXPECT_EQ(line(received.step()), "reap done 0, expire done 0, prune done 1");
}

TEST_P(House, without_a_retention_of_its_own_it_keeps_the_boxs) {
  make_done();
  BoxOptions short_lived = options();
  short_lived.retention = 24h;
  Inbox inbox(database(), short_lived);
  clock().advance(24h - 1s);
  Housekeeping house(inbox, only(Chore::prune));
  EXPECT_EQ(line(house.step()), "prune done 0");
  clock().advance(1h);
  EXPECT_EQ(line(house.step()), "prune done 1");
}

TEST_P(House, MBH_16_a_failing_cleanup_is_logged_and_tried_again_at_the_next_interval) {
  make_done();
  clock().advance(40 * 24h);
  std::vector<std::string> told;
  Housekeeping house(inbox(), {}, [&](const ChoreReport& report) {
    told.emplace_back(to_string(report.end));
    throw std::runtime_error("an observer's own failure");
  });
  rename_table("inbox_failure", "gone");
  const HousekeepingReport report = house.step();
  EXPECT_EQ(line(report), "reap done 0, expire done 0, prune failed 0");
  EXPECT_FALSE(report.chores.back().error.empty());
  EXPECT_EQ(told, (std::vector<std::string>{"done", "done", "failed"}));
  bool logged = false;
  for (const RecordedEvent& event : log().events("housekeeping")) {
    if (event.level != LogLevel::error) continue;
    logged = event.field("chore") == "prune" && event.field("error") == report.chores.back().error;
  }
  EXPECT_TRUE(logged);
  EXPECT_EQ(house.stats(Chore::prune).failures, 1u);
  EXPECT_EQ(house.stats(Chore::prune).last_error, report.chores.back().error);
  clock().advance(30s);
  EXPECT_EQ(line(house.step()), "reap done 0, expire done 0");
  rename_table("gone", "inbox_failure");
  clock().advance(1h);
  EXPECT_EQ(line(house.step()), "reap done 0, expire done 0, prune done 1");
}

TEST_P(House, MBH_16_a_store_that_cannot_even_give_the_lease_stops_nobody) {
  Housekeeping house(inbox());
  rename_table("inbox_named_lease", "gone");
  EXPECT_EQ(line(house.step()), "reap failed 0, expire failed 0, prune failed 0");
  rename_table("gone", "inbox_named_lease");
  clock().advance(1h);
  EXPECT_EQ(line(house.step()), "reap done 0, expire done 0, prune done 0");
}

TEST_P(House, PHD_38_options_are_checked_with_their_names_and_bounds) {
  const auto refusal = [&](const std::function<void(HousekeepingOptions&)>& spoil) {
    HousekeepingOptions options;
    spoil(options);
    try {
      Housekeeping house(inbox(), options);
    } catch (const std::out_of_range& error) {
      return std::string{error.what()};
    }
    return std::string{"taken"};
  };
  EXPECT_EQ(refusal([](auto& options) { options.reap.interval = 0s; }),
            "housekeeping options: reap.interval must be 1 ms to 365 days");
  EXPECT_EQ(refusal([](auto& options) { options.expire.interval = 366 * 24h; }),
            "housekeeping options: expire.interval must be 1 ms to 365 days");
  EXPECT_EQ(refusal([](auto& options) { options.prune.batch = 0; }),
            "housekeeping options: prune.batch must be 1 to 100000");
  EXPECT_EQ(refusal([](auto& options) { options.prune.batch = 100'001; }),
            "housekeeping options: prune.batch must be 1 to 100000");
  EXPECT_EQ(refusal([](auto& options) { options.retention = -1s; }),
            "housekeeping options: retention must be 0 or longer");
  EXPECT_EQ(refusal([](auto& options) { options.min_lease = 0s; }),
            "housekeeping options: min_lease must be 1 ms to 1 day");
  EXPECT_EQ(refusal([](auto&) {}), "taken");
}

TEST_P(House, PHD_38_a_dispatcher_refuses_them_at_start_up_for_one_store_and_for_many) {
  DispatcherOptions wrong;
  wrong.housekeeping->prune.interval = 0s;
  EXPECT_THROW(Dispatcher(inbox(), Handlers{}, wrong), std::out_of_range);
  DatabaseSet none(std::vector<StoreDefinition>{}, {}, environment());
  EXPECT_THROW(Dispatcher(none, BoxKind::inbox, Handlers{}, wrong), std::out_of_range);
  wrong.housekeeping.reset();
  EXPECT_NO_THROW(Dispatcher(none, BoxKind::inbox, Handlers{}, wrong));
}

TEST_P(House, with_nothing_to_do_it_looks_once_a_day) {
  HousekeepingOptions none = only(Chore::prune);
  none.prune.enabled = false;
  const HousekeepingReport report = Housekeeping(inbox(), none).step();
  EXPECT_TRUE(report.chores.empty());
  EXPECT_EQ(report.next, Duration{24h});
}

TEST_P(House, goes_by_the_databases_clock_and_its_own_where_no_test_hands_one_in) {
  Database database(test_store().address());
  Inbox inbox(database, options());
  inbox.ack(worker_a, inbox.accept_and_claim(an_arrival(), worker_a, 30s).messages);
  HousekeepingOptions now = pruning(0s);
  Housekeeping house(inbox, now);
  const HousekeepingReport report = house.step();
  EXPECT_EQ(line(report), "prune done 1");
  EXPECT_GT(report.next, Duration{30min});
  EXPECT_LE(report.next, Duration{1h});
  EXPECT_EQ(line(house.step()), "");
  EXPECT_EQ(line(Housekeeping(inbox, now).step()), "prune elsewhere 0");
}

TWINBOX_ON_EVERY_BACKEND(House);

}  // namespace
}  // namespace twinbox::test
