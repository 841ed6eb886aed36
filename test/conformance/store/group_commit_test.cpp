// Callers that come at the same time share a commit, and nothing else.
#include <map>
#include <set>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class GroupCommitOf : public InboxTest {
 protected:
  static constexpr int callers = 16;

  /// The store as somebody else opens it, where that can be done.
  template <class F>
  void read_elsewhere(F look) {
    if (GetParam() == Backend::sqlite_memory) {
      look(database());
    } else {
      Database second(test_store().address(), {}, environment());
      look(second);
    }
  }
};

TEST_P(GroupCommitOf, accepts_every_message_of_many_threads) {
  inbox();
  constexpr int each = 25;
  race(callers, [&](int caller) {
    for (int i = 0; i < each; ++i) {
      const std::string id = std::to_string(caller) + "/" + std::to_string(i);
      EXPECT_EQ(inbox().accept(an_arrival(id)).state, Acceptance::accepted);
      if (i % 5 == 0) {
        EXPECT_EQ(inbox().state(a_key(id)), MessageState::open) << "not there after the answer";
      }
    }
  });
  read_elsewhere([&](Database& elsewhere) {
    Inbox second(elsewhere, options());
    std::set<std::string> ids;
    for (const Message& message : second.claim(worker_a, 30s, 1000)) ids.insert(message.id.str());
    EXPECT_EQ(ids.size(), static_cast<std::size_t>(callers * each));
  });
}

TEST_P(GroupCommitOf, enqueues_every_message_of_many_threads) {
  outbox();
  constexpr int each = 25;
  std::mutex mutex;
  std::set<std::string> answered;
  race(callers, [&](int) {
    for (int i = 0; i < each; ++i) {
      const MessageId id = outbox().enqueue(a_message()).id;
      const std::lock_guard lock(mutex);
      answered.insert(id.str());
    }
  });
  EXPECT_EQ(answered.size(), static_cast<std::size_t>(callers * each));
  read_elsewhere([&](Database& elsewhere) {
    Outbox second(elsewhere, options());
    std::set<std::string> ids;
    for (const Message& message : second.claim(worker_a, 30s, 1000)) ids.insert(message.id.str());
    EXPECT_EQ(ids, answered);
  });
}

TEST_P(GroupCommitOf, IBX_014_answers_accepted_to_one_of_the_callers_with_the_same_message) {
  inbox();
  constexpr int rounds = 20;
  std::map<std::string, std::atomic<int>> accepted;
  for (int i = 0; i < rounds; ++i) accepted["evt_" + std::to_string(i)] = 0;
  race(callers, [&](int caller) {
    for (int i = 0; i < rounds; ++i) {
      const std::string id = "evt_" + std::to_string((i + caller) % rounds);
      accepted.at(id) += !inbox().accept(an_arrival(id)).duplicate();
    }
  });
  for (const auto& [id, count] : accepted) {
    EXPECT_EQ(count, 1) << id;
    EXPECT_EQ(detail(a_key(id)).message.seen_count, callers) << id;
  }
  EXPECT_EQ(inbox().claim(worker_a, 30s, 1000).size(), static_cast<std::size_t>(rounds));
}

TEST_P(GroupCommitOf, fails_the_one_message_that_the_database_refuses_and_no_other) {
  refuse_poison("insert");
  constexpr int each = 20;
  std::atomic<int> refused = 0;
  race(callers, [&](int caller) {
    for (int i = 0; i < each; ++i) {
      const std::string id = std::to_string(caller) + "/" + std::to_string(i);
      if ((caller + i) % 4 != 0) {
        EXPECT_EQ(inbox().accept(an_arrival(id)).state, Acceptance::accepted);
        continue;
      }
      try {
        inbox().accept(an_arrival(id, "stripe", "poison"));
      } catch (const DatabaseError& error) {
        EXPECT_FALSE(error.retryable());
        ++refused;
      }
    }
  });
  EXPECT_EQ(refused, callers * each / 4);
  EXPECT_EQ(count_messages(), std::to_string(callers * each * 3 / 4));
  EXPECT_EQ(read("select max(seen_count) from {schema}inbox_message"), "1");
}

TEST_P(GroupCommitOf, answers_accepted_to_new_messages_beside_a_known_one_that_is_refused) {
  inbox().accept(an_arrival("known"));
  refuse_poison("update");
  constexpr int each = 20;
  race(callers, [&](int caller) {
    for (int i = 0; i < each; ++i) {
      const std::string id = std::to_string(caller) + "/" + std::to_string(i);
      if ((caller + i) % 4 == 0) {
        EXPECT_THROW(inbox().accept(an_arrival("known", "stripe", "poison")), DatabaseError);
      } else {
        EXPECT_EQ(inbox().accept(an_arrival(id)).state, Acceptance::accepted);
      }
    }
  });
  EXPECT_EQ(detail(a_key("known")).message.content_version, 1);
  EXPECT_EQ(read("select count(*) from {schema}inbox_message where id <> 'known' and "
                 "(seen_count <> 1 or content_version <> 1)"),
            "0");
}

TEST_P(GroupCommitOf, refuses_an_invalid_message_before_it_reaches_the_others) {
  inbox();
  race(callers, [&](int caller) {
    Arrival arrival = an_arrival(std::to_string(caller));
    if (caller % 2 == 0) {
      EXPECT_EQ(inbox().accept(arrival).state, Acceptance::accepted);
    } else {
      arrival.extras.headers = "not json";
      EXPECT_THROW(inbox().accept(arrival), std::invalid_argument);
    }
  });
  EXPECT_EQ(count_messages(), std::to_string(callers / 2));
}

TEST_P(GroupCommitOf, keeps_the_order_of_each_caller_inside_a_partition_key) {
  inbox();
  constexpr int each = 10;
  race(4, [&](int caller) {
    for (int i = 0; i < each; ++i) {
      Arrival arrival = an_arrival(std::to_string(caller) + "/" + std::to_string(i));
      arrival.extras.partition_key = PartitionKey{std::to_string(caller)};
      EXPECT_EQ(inbox().accept(arrival).state, Acceptance::accepted);
    }
  });
  for (int i = 0; i < each; ++i) {
    const auto heads = inbox().claim(worker_a, 30s, 100);
    EXPECT_EQ(heads.size(), 4u);
    for (const Message& head : heads) {
      EXPECT_EQ(head.id.str(), head.partition_key->str() + "/" + std::to_string(i));
    }
    inbox().ack(worker_a, heads);
  }
}

TEST_P(GroupCommitOf, refuses_a_call_from_inside_a_transaction) {
  inbox();
  EXPECT_THROW(database().in_transaction([&](Session&) { inbox().accept(an_arrival()); }),
               UsageError);
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::accepted);
}

TWINBOX_ON_EVERY_BACKEND(GroupCommitOf);

}  // namespace
}  // namespace twinbox::test
