// Named leases: one holder at a time, by the database's clock, with an epoch that only grows.
#include <future>
#include <set>

#include "support/inbox_test.hpp"
#include <twinbox/housekeeping.hpp>

namespace twinbox::test {
namespace {

class NamedLeaseOf : public InboxTest {
 protected:
  NamedLeases leases() { return NamedLeases{inbox()}; }
  /// Makes sure that it was free.
  NamedLease acquired(OwnerToken owner, Duration duration = 30s) {
    return leases().try_acquire(name, owner, duration).value();
  }
  std::optional<OwnerToken> holder() {
    const auto found = leases().holder(name);
    return found ? std::optional{found->lease.owner} : std::nullopt;
  }

  const LeaseName name{"cleanup"};
};

TEST_P(NamedLeaseOf, is_had_by_one_until_it_runs_out) {
  EXPECT_EQ(holder(), std::nullopt);
  const NamedLease held = acquired(worker_a);
  EXPECT_EQ(held, (NamedLease{name, worker_a, 1}));
  EXPECT_EQ(leases().holder(name)->lease, held);
  EXPECT_EQ(leases().holder(name)->until, clock().now() + 30s);
  EXPECT_EQ(leases().try_acquire(name, worker_b, 30s), std::nullopt);
  clock().advance(30s - 1us);
  EXPECT_EQ(leases().try_acquire(name, worker_b, 30s), std::nullopt);
  EXPECT_EQ(holder(), worker_a);
  clock().advance(1us);
  EXPECT_EQ(holder(), std::nullopt);
  EXPECT_EQ(leases().try_acquire(name, worker_b, 30s), (NamedLease{name, worker_b, 2}));
  EXPECT_EQ(leases().try_acquire(name, worker_a, 30s), std::nullopt);
}

TEST_P(NamedLeaseOf, names_stand_beside_each_other_byte_by_byte) {
  acquired(worker_a);
  for (const std::string other : {"Cleanup", "cleanup ", "cleanup/1", "\xc3\xa4"}) {
    if (on_sqlserver() && other.ends_with(' ')) {
      EXPECT_THROW(leases().try_acquire(LeaseName{other}, worker_b, 30s), std::invalid_argument);
      continue;
    }
    EXPECT_TRUE(leases().try_acquire(LeaseName{other}, worker_b, 30s)) << other;
  }
  EXPECT_EQ(holder(), worker_a);
}

TEST_P(NamedLeaseOf, the_boxes_of_one_schema_have_leases_of_their_own) {
  acquired(worker_a);
  EXPECT_TRUE(NamedLeases{outbox()}.try_acquire(name, worker_b, 30s));
  EXPECT_EQ(holder(), worker_a);
}

TEST_P(NamedLeaseOf, the_next_has_it_at_once_after_a_release_and_the_epoch_grows) {
  const NamedLease first = acquired(worker_a);
  EXPECT_TRUE(leases().release(first));
  EXPECT_FALSE(leases().release(first));
  EXPECT_EQ(holder(), std::nullopt);
  const NamedLease second = acquired(worker_b);
  EXPECT_EQ(second.epoch, 2);
  EXPECT_FALSE(leases().release(first));
  EXPECT_EQ(holder(), worker_b);
  EXPECT_TRUE(leases().release(second));
  EXPECT_EQ(acquired(worker_a).epoch, 3);
}

TEST_P(NamedLeaseOf, whoever_has_it_keeps_his_epoch_and_loses_no_time) {
  const NamedLease held = acquired(worker_a, 60s);
  const Instant end = clock().now() + 60s;
  EXPECT_EQ(acquired(worker_a, 10s), held);
  EXPECT_EQ(leases().holder(name)->until, end);
  clock().advance(59s);
  EXPECT_EQ(acquired(worker_a, 30s), held);
  EXPECT_EQ(leases().holder(name)->until, clock().now() + 30s);
}

TEST_P(NamedLeaseOf, a_lease_that_ran_out_has_a_new_epoch_even_for_the_same_owner) {
  const NamedLease stale = acquired(worker_a);
  clock().advance(30s);
  const NamedLease fresh = acquired(worker_a);
  EXPECT_EQ(fresh.epoch, stale.epoch + 1);
  EXPECT_FALSE(leases().renew(stale, 30s));
  EXPECT_FALSE(leases().release(stale));
  EXPECT_TRUE(leases().renew(fresh, 30s));
}

TEST_P(NamedLeaseOf, renew_moves_the_end_of_what_is_held_and_of_nothing_else) {
  const NamedLease held = acquired(worker_a);
  clock().advance(20s);
  EXPECT_TRUE(leases().renew(held, 30s));
  EXPECT_EQ(leases().holder(name)->until, clock().now() + 30s);
  EXPECT_FALSE(leases().renew({name, worker_b, held.epoch}, 30s));
  EXPECT_FALSE(leases().renew({name, worker_a, held.epoch + 1}, 30s));
  EXPECT_FALSE(leases().renew({LeaseName{"other"}, worker_a, held.epoch}, 30s));
  clock().advance(30s);
  EXPECT_FALSE(leases().renew(held, 30s)) << "it has run out";
  acquired(worker_b);
  EXPECT_FALSE(leases().renew(held, 30s));
  EXPECT_EQ(leases().holder(name)->until, clock().now() + 30s);
}

TEST_P(NamedLeaseOf, a_clock_that_steps_backwards_never_shortens_it) {
  const NamedLease held = acquired(worker_a);
  const Instant end = clock().now() + 30s;
  clock().advance(-10min);
  EXPECT_TRUE(leases().renew(held, 30s));
  EXPECT_EQ(leases().holder(name)->until, end);
  EXPECT_EQ(acquired(worker_a), held);
  EXPECT_EQ(leases().holder(name)->until, end);
  EXPECT_EQ(leases().try_acquire(name, worker_b, 30s), std::nullopt);
}

TEST_P(NamedLeaseOf, released_under_a_clock_that_stepped_back_it_is_free) {
  const NamedLease held = acquired(worker_a);
  clock().advance(-10min);
  EXPECT_TRUE(leases().release(held));
  EXPECT_EQ(holder(), std::nullopt);
  EXPECT_EQ(acquired(worker_b).epoch, 2);
}

TEST_P(NamedLeaseOf, exactly_one_of_many_gets_it) {
  constexpr int rivals = 8;
  for (int i = 0; i < rivals; ++i) other_inbox(static_cast<std::size_t>(i));
  std::vector<OwnerToken> owners;
  for (int i = 0; i < rivals; ++i) owners.push_back(OwnerToken::make({}));
  std::int64_t last = 0;
  for (int round = 0; round < 25; ++round) {
    std::atomic<int> winners = 0;
    std::atomic<std::int64_t> epoch = 0;
    race(rivals, [&](int rival) {
      const auto at = static_cast<std::size_t>(rival);
      if (const auto held = NamedLeases{other_inbox(at)}.try_acquire(name, owners[at], 30s)) {
        ++winners;
        epoch = held->epoch;
      }
    });
    EXPECT_EQ(winners, 1) << "round " << round;
    EXPECT_EQ(epoch, last + 1) << "round " << round;
    last = epoch;
    if (round % 2 == 0) {
      clock().advance(30s);
    } else {
      ASSERT_TRUE(leases().release(leases().holder(name).value().lease));
    }
  }
}

TEST_P(NamedLeaseOf, slots_let_so_many_in_and_no_more) {
  std::vector<OwnerToken> owners;
  for (int i = 0; i < 4; ++i) owners.push_back(OwnerToken::make({}));
  std::vector<NamedLease> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(
        leases().try_acquire_one_of(name, 3, owners[static_cast<std::size_t>(i)], 30s).value());
    EXPECT_EQ(held.back().name.str(), "cleanup/" + std::to_string(i + 1));
  }
  EXPECT_EQ(leases().try_acquire_one_of(name, 3, owners[3], 30s), std::nullopt);
  EXPECT_EQ(leases().try_acquire_one_of(name, 3, owners[1], 30s), held[1])
      << "whoever has a slot gets the same one again";
  EXPECT_TRUE(leases().renew(held[2], 60s));
  EXPECT_TRUE(leases().release(held[1]));
  const auto late = leases().try_acquire_one_of(name, 3, owners[3], 30s);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->name, held[1].name);
  EXPECT_GT(late->epoch, held[1].epoch);
}

TEST_P(NamedLeaseOf, slots_under_a_race_are_each_had_by_one) {
  constexpr int rivals = 8;
  constexpr int slots = 3;
  for (int i = 0; i < rivals; ++i) other_inbox(static_cast<std::size_t>(i));
  for (int round = 0; round < 10; ++round) {
    std::mutex mutex;
    std::set<LeaseName> taken;
    int winners = 0;
    race(rivals, [&](int rival) {
      const auto held =
          NamedLeases{other_inbox(static_cast<std::size_t>(rival))}.try_acquire_one_of(
              name, slots, OwnerToken::make({}), 30s);
      if (!held) return;
      const std::lock_guard lock(mutex);
      taken.insert(held->name);
      ++winners;
    });
    EXPECT_EQ(winners, slots) << "round " << round;
    EXPECT_EQ(taken.size(), static_cast<std::size_t>(slots)) << "round " << round;
    clock().advance(30s);
  }
}

TEST_P(NamedLeaseOf, names_durations_and_slots_are_checked) {
  for (const std::string& wrong :
       {std::string{}, std::string{"  "}, std::string(201, 'x'), std::string{"\xff"}}) {
    EXPECT_THROW(LeaseName{wrong}, std::invalid_argument) << wrong;
  }
  EXPECT_TRUE(leases().try_acquire_one_of(LeaseName{std::string(200, 'x')}, 1000, worker_a, 30s));
  for (const Duration wrong : {Duration{0}, Duration{-1}, Duration::max()}) {
    EXPECT_THROW(leases().try_acquire(name, worker_a, wrong), std::out_of_range);
    EXPECT_THROW(leases().renew({name, worker_a, 1}, wrong), std::out_of_range);
  }
  for (const int wrong : {0, -1, 1001}) {
    EXPECT_THROW(leases().try_acquire_one_of(name, wrong, worker_a, 30s), std::out_of_range);
    EXPECT_THROW(LeaseKeeper(inbox(), name, worker_a, {.slots = wrong}), std::out_of_range);
  }
  EXPECT_THROW(LeaseKeeper(inbox(), name, worker_a, {.lease = 0s}), std::out_of_range);
  EXPECT_THROW(LeaseKeeper(inbox(), name, worker_a, {.retry_interval = 0s}), std::out_of_range);
}

TWINBOX_ON_EVERY_BACKEND(NamedLeaseOf);

class Keeper : public NamedLeaseOf {
 protected:
  LeaseKeeper keeper(OwnerToken owner, LeaseKeeperOptions options = {}) {
    return LeaseKeeper{inbox(), name, owner, options};
  }
};

TEST_P(Keeper, PHD_15_holds_the_name_and_renews_it_in_time) {
  LeaseKeeper a = keeper(worker_a);
  EXPECT_FALSE(a.held());
  EXPECT_EQ(a.step(), Duration{10s});
  ASSERT_TRUE(a.held());
  const NamedLease first = a.lease().value();
  for (int i = 0; i < 10; ++i) {
    clock().advance(a.step());
    a.step();
    EXPECT_TRUE(a.held());
    EXPECT_EQ(a.lease(), first);
    EXPECT_EQ(leases().holder(name)->until, clock().now() + 30s);
  }
  clock().advance(4s);
  EXPECT_EQ(a.step(), Duration{6s});
}

TEST_P(Keeper, PHD_15_another_takes_over_and_the_former_notices_at_its_next_step) {
  LeaseKeeper a = keeper(worker_a);
  a.step();
  LeaseKeeper b = keeper(worker_b, {.retry_interval = 2s});
  EXPECT_EQ(b.step(), Duration{2s});
  EXPECT_FALSE(b.held());
  ASSERT_TRUE(leases().release(a.lease().value()));
  ASSERT_TRUE((b.step(), b.held()));
  EXPECT_TRUE(a.held()) << "it has not looked yet";
  clock().advance(10s);
  a.step();
  EXPECT_FALSE(a.held());
  const auto warnings = log().events("lease_lost");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].level, LogLevel::warning);
  EXPECT_EQ(warnings[0].field("name"), "cleanup");
}

TEST_P(Keeper, PHD_15_a_lease_that_was_not_renewed_in_time_is_lost_without_asking_anybody) {
  LeaseKeeper a = keeper(worker_a);
  a.step();
  clock().advance(30s - 1us);
  EXPECT_TRUE(a.held());
  clock().advance(1us);
  EXPECT_FALSE(a.held());
  EXPECT_EQ(a.lease(), std::nullopt);
  a.step();
  EXPECT_EQ(a.lease().value().epoch, 2);
  EXPECT_EQ(log().events("lease_lost").size(), 1u);
}

TEST_P(Keeper, PHD_15_what_is_held_outlasts_errors_of_the_database_until_its_time_is_over) {
  LeaseKeeper a = keeper(worker_a);
  a.step();
  clock().advance(10s);
  rename_table("inbox_named_lease", "gone");
  EXPECT_THROW(a.step(), DatabaseError);
  EXPECT_TRUE(a.held());
  rename_table("gone", "inbox_named_lease");
  a.step();
  EXPECT_EQ(leases().holder(name)->until, clock().now() + 30s);
}

TEST_P(Keeper, gives_the_name_back_in_its_destructor) {
  {
    LeaseKeeper a = keeper(worker_a);
    a.step();
  }
  LeaseKeeper b = keeper(worker_b);
  b.step();
  EXPECT_TRUE(b.held());
  b.release();
  EXPECT_FALSE(b.held());
  EXPECT_EQ(holder(), std::nullopt);
  b.step();
  EXPECT_TRUE(b.held());
}

TEST_P(Keeper, keeps_one_slot_of_several) {
  LeaseKeeper a = keeper(worker_a, {.slots = 2});
  LeaseKeeper b = keeper(worker_b, {.slots = 2});
  LeaseKeeper c = keeper(OwnerToken::make({}), {.slots = 2});
  for (LeaseKeeper* each : {&a, &b, &c}) each->step();
  EXPECT_EQ(a.lease().value().name.str(), "cleanup/1");
  EXPECT_EQ(b.lease().value().name.str(), "cleanup/2");
  EXPECT_FALSE(c.held());
  a.release();
  c.step();
  EXPECT_EQ(c.lease().value().name.str(), "cleanup/1");
}

TEST_P(Keeper, PHD_15_acquiring_has_a_timeout) {
  int tries = 0;
  Environment slow = environment();
  slow.log = [&](const LogEvent& event) {
    if (event.name != "lease_acquire") return;
    ++tries;
    clock().advance(20s);
  };
  Database database(test_store().address(), {}, slow);
  Inbox inbox(database, options());
  ASSERT_TRUE(NamedLeases{inbox}.try_acquire(name, worker_b, 100s));
  LeaseKeeper a(inbox, name, worker_a, {.retry_interval = 1ms});
  tries = 0;
  EXPECT_FALSE(a.acquire({}, 60s));
  EXPECT_EQ(tries, 3);
  EXPECT_TRUE(a.acquire({}, 60s));
  EXPECT_EQ(tries, 5);
  EXPECT_TRUE(a.held());
}

TEST_P(Keeper, acquiring_may_take_for_ever) {
  int tries = 0;
  Environment slow = environment();
  slow.log = [&](const LogEvent& event) {
    if (event.name == "lease_acquire" && ++tries == 3) clock().advance(100s);
  };
  Database database(test_store().address(), {}, slow);
  Inbox inbox(database, options());
  ASSERT_TRUE(NamedLeases{inbox}.try_acquire(name, worker_b, 100s));
  LeaseKeeper a(inbox, name, worker_a, {.retry_interval = 1ms});
  EXPECT_TRUE(a.acquire({}, Duration::max()));
}

TEST_P(Keeper, a_stop_request_ends_the_wait) {
  acquired(worker_b, 1h);
  LeaseKeeper a = keeper(worker_a, {.retry_interval = 1h});
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] { return a.acquire(stop.get_token(), 1h); });
  stop.request_stop();
  EXPECT_FALSE(waiting.get());
}

TEST_P(Keeper, goes_by_the_databases_clock_and_its_own_where_no_test_hands_one_in) {
  Database database(test_store().address());
  Inbox inbox(database, options());
  NamedLeases leases(inbox);
  {
    LeaseKeeper a(inbox, name, worker_a, {.lease = 1h});
    LeaseKeeper b(inbox, name, worker_b, {.lease = 1h});
    EXPECT_EQ(a.step(), Duration{20min});
    EXPECT_TRUE(a.held());
    EXPECT_GT(a.step(), Duration{10min}) << "nothing to renew yet";
    b.step();
    EXPECT_FALSE(b.held());
    EXPECT_TRUE(leases.renew(a.lease().value(), 2h));
    const Instant until = leases.holder(name).value().until;
    EXPECT_GT(until, std::chrono::system_clock::now() + 1h);
    EXPECT_LT(until, std::chrono::system_clock::now() + 3h);
  }
  EXPECT_FALSE(leases.holder(name));
  EXPECT_TRUE(leases.try_acquire(name, worker_b, 1us));
  for (bool again = false; !again;) again = leases.try_acquire(name, worker_a, 1h).has_value();
  EXPECT_EQ(leases.holder(name).value().lease.owner, worker_a) << "as soon as it had run out";
}

TWINBOX_ON_EVERY_BACKEND(Keeper);

}  // namespace
}  // namespace twinbox::test
