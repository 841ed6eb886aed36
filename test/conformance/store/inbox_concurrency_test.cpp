// Several workers on one inbox: what one has in hand, no other sees or gets.
#include <future>
#include <set>
#include <tuple>

#include "support/inbox_test.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

class InboxConcurrency : public InboxTest {
 protected:
  /// An inbox whose calls fail at once when they would have to wait.
  struct Impatient {
    Impatient(const TestStore& test_store, const BoxOptions& options,
              const Environment& environment)
        : database(test_store.address(), {.wait_timeout = 0ms, .retries = 0}, environment),
          inbox(database, options) {}

    Database database;
    Inbox inbox;
  };

  /// What the worker gets: on SQLite it may have to wait, which an impatient one is told.
  static std::vector<Message> claim_or_nothing(Inbox& inbox, OwnerToken worker) {
    try {
      return inbox.claim(worker, 30s, 10);
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::contention) << error.what();
      EXPECT_TRUE(error.retryable());
      return {};
    }
  }

  /// Runs `body` on the shared store from a thread that holds no connection yet.
  template <class F>
  static auto elsewhere(F body) {
    return std::async(std::launch::async, body).get();
  }
};

TEST_P(InboxConcurrency, IBX_030_IBX_103_never_sees_what_another_transaction_has_in_hand) {
  Impatient first(test_store(), options(), environment());
  std::unique_ptr<Impatient> own;
  if (GetParam() != Backend::sqlite_memory) {
    own = std::make_unique<Impatient>(test_store(), options(), environment());
  }
  Inbox& second = own ? own->inbox : first.inbox;
  first.inbox.accept(an_arrival("known"));

  EXPECT_THROW(first.database.in_transaction([&](Session& session) {
    first.inbox.accept(session, an_arrival("half done"));
    ASSERT_EQ(first.inbox.claim(session, worker_a, 30s, 1).size(), 1u);
    const auto seen = elsewhere([&] { return claim_or_nothing(second, worker_b); });
    EXPECT_TRUE(seen.empty());
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  const auto messages = second.claim(worker_b, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id.str(), "known");
  EXPECT_EQ(messages[0].expiries, 0);
}

TEST_P(InboxConcurrency, IBX_030_IBX_106_gives_no_message_to_two_workers) {
  constexpr int workers = 4;
  constexpr int messages = 200;
  std::vector<Arrival> arrivals;
  for (int i = 0; i < messages; ++i) arrivals.push_back(an_arrival("evt_" + std::to_string(i)));
  inbox().accept(arrivals);
  for (int i = 0; i < workers; ++i) other_inbox(static_cast<std::size_t>(i));

  std::mutex mutex;
  std::multiset<std::string> claimed;
  race(workers, [&](int worker) {
    Inbox& inbox = other_inbox(static_cast<std::size_t>(worker));
    const OwnerToken owner = OwnerToken::make({});
    for (;;) {
      const auto batch = inbox.claim(owner, 30s, 7);
      const std::lock_guard lock(mutex);
      for (const Message& message : batch) claimed.insert(message.id.str());
      if (batch.empty() && claimed.size() >= messages) return;
    }
  });
  EXPECT_EQ(claimed.size(), static_cast<std::size_t>(messages));
  EXPECT_EQ(std::set<std::string>(claimed.begin(), claimed.end()).size(), claimed.size());
}

TEST_P(InboxConcurrency, IBX_106_takes_an_expired_lease_over_once) {
  constexpr int workers = 4;
  for (int i = 0; i < workers; ++i) other_inbox(static_cast<std::size_t>(i));
  inbox().accept(an_arrival());
  std::ignore = inbox().claim(worker_a, 30s, 1);
  for (int round = 1; round < 5; ++round) {
    clock().advance(30s);
    std::atomic<int> taken = 0;
    race(workers, [&](int worker) {
      Inbox& inbox = other_inbox(static_cast<std::size_t>(worker));
      taken += static_cast<int>(inbox.claim(OwnerToken::make({}), 30s, 1).size());
    });
    EXPECT_EQ(taken, 1) << "round " << round;
    EXPECT_EQ(delivery().expiries, round);
  }
}

TEST_P(InboxConcurrency, IBX_102_makes_each_call_one_transaction) {
  inbox().accept(an_arrival("known"));
  const auto held = inbox().claim(worker_a, 30s, 1);
  const std::string condition = "check (handler <> '' or number < 0)";
  write(!on_sqlite() ? "alter table {schema}inbox_outcome add " + condition
                     : "create trigger refuse before insert on inbox_outcome begin "
                       "select raise(abort, 'refused'); end");
  EXPECT_THROW(inbox().ack(worker_a, held), DatabaseError);
  EXPECT_THROW(inbox().fail(worker_a, held, "boom"), DatabaseError);
  EXPECT_THROW(inbox().mark_processed(a_key("known")), DatabaseError);
  EXPECT_THROW(inbox().mark_processed(an_arrival("unknown")), DatabaseError);
  EXPECT_THROW(std::ignore = inbox().try_claim(a_key("gate"), Topic{"t"}), DatabaseError);
  EXPECT_EQ(inbox().state(a_key("known")), MessageState::open);
  EXPECT_EQ(delivery(a_key("known")).attempts, 0);
  EXPECT_TRUE(detail(a_key("known")).timeline.empty());
  EXPECT_EQ(inbox().state(a_key("unknown")), std::nullopt);
  EXPECT_EQ(inbox().state(a_key("gate")), std::nullopt);
  EXPECT_EQ(inbox().renew(worker_a, held, 30s).size(), 1u);
}

TWINBOX_ON_EVERY_BACKEND(InboxConcurrency);

class SharedInbox : public InboxTest {};

TEST_P(SharedInbox, IBX_105_several_programs_work_on_one_inbox) {
  for (const char* id : {"a", "b", "c"}) inbox().accept(an_arrival(id));
  const auto mine = inbox().claim(worker_a, 30s, 2);
  const auto theirs = other_inbox(0).claim(worker_b, 30s, 2);
  EXPECT_EQ(mine.size(), 2u);
  EXPECT_EQ(theirs.size(), 1u);
  EXPECT_EQ(other_inbox(0).ack(worker_b, theirs), 1u);
  EXPECT_EQ(other_inbox(0).ack(worker_a, mine), 2u);
  for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(inbox().has_processed(a_key(id))) << id;
}

TWINBOX_ON_BACKENDS(SharedInbox, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

class InboxContention : public InboxConcurrency {};

TEST_P(InboxContention, reports_a_store_that_stays_busy_and_leaves_nothing_behind) {
  if (GetParam() == Backend::sqlite_file) REQUIREMENT("IBX-104");
  Impatient shared(test_store(), options(), environment());
  shared.database.in_transaction([&](Session& session) {
    shared.inbox.accept(session, an_arrival("first"));
    const auto kind = elsewhere([&] {
      try {
        shared.inbox.accept(std::vector{an_arrival("second")});
      } catch (const DatabaseError& error) {
        return error.kind();
      }
      return DatabaseError::Kind::other;
    });
    EXPECT_EQ(kind, DatabaseError::Kind::contention);
  });
  EXPECT_EQ(shared.inbox.state(a_key("first")), MessageState::open);
  EXPECT_EQ(shared.inbox.state(a_key("second")), std::nullopt);
}

TWINBOX_ON_BACKENDS(InboxContention, Backend::sqlite_file, Backend::sqlite_memory);

class InboxDeadlock : public InboxTest {};

TEST_P(InboxDeadlock, IBX_104_repeats_a_call_that_met_a_deadlock_or_reports_it) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  const std::vector<Arrival> both{an_arrival("a"), an_arrival("b")};
  inbox().accept(both, handlers);
  PgClient rival(test_store().address());
  PgClient watcher(test_store().address());
  rival.begin();
  inbox().accept(rival.session(), an_arrival("b"), handlers);
  Call ours([&] { return inbox().accept(both, handlers).size(); });
  ASSERT_TRUE(waits_for(ours, rival, watcher));

  bool reported = false;
  try {
    inbox().accept(rival.session(), an_arrival("a"), handlers);
    rival.commit();
  } catch (const DatabaseError& error) {
    reported = error.kind() == DatabaseError::Kind::contention;
    EXPECT_TRUE(reported) << error.what();
    rival.rollback();
  }
  EXPECT_EQ(ours.get(), 2u);
  const bool repeated = !log().events("retry").empty();
  // Both, where the repeated call was faster than the rival who could have gone on.
  EXPECT_TRUE(reported || repeated);
  EXPECT_EQ(detail(a_key("a")).message.seen_count, reported ? 2 : 3);
  EXPECT_EQ(detail(a_key("a")).deliveries.size(), 2u);
}

TWINBOX_ON_BACKENDS(InboxDeadlock, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
