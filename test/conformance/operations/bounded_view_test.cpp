// Views of many things are bounded, whatever lies in a box.
#include <algorithm>
#include <numeric>

#include "support/outbox_test.hpp"
#include <twinbox/health.hpp>
#include <twinbox/housekeeping.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

/// Letters, since numbers are left out when errors are compared.
std::string letters(int number) {
  std::string text;
  for (int i = 0; i < 4; ++i, number /= 26) text += static_cast<char>('a' + number % 26);
  return text;
}

class BoundedView : public OutboxTest {
 protected:
  static constexpr int many = 5000;

  Admin admin() { return Admin{outbox()}; }

  void enqueue_topics(int count) {
    std::vector<NewMessage> messages;
    for (int i = 0; i < count; ++i) messages.push_back(a_message("topic." + letters(i)));
    outbox().enqueue(messages);
  }

  /// One dead letter for each error.
  void make_dead(const std::vector<std::string>& errors) {
    outbox().enqueue(std::vector<NewMessage>(errors.size(), a_message()));
    const auto held = outbox().claim(worker_a, 30s, static_cast<std::int64_t>(errors.size()));
    ASSERT_EQ(held.size(), errors.size());
    outbox().database().in_transaction([&](Session& session) {
      for (std::size_t i = 0; i < held.size(); ++i)
        outbox().fail(session, worker_a, held[i], errors[i]);
    });
  }

  static std::vector<std::string> different_errors(int count) {
    std::vector<std::string> errors;
    for (int i = 0; i < count; ++i) errors.push_back("failed by " + letters(i));
    return errors;
  }

  /// How many rows the statement `name` returns during `body`.
  template <class F>
  std::size_t rows_of(std::string_view name, const F& body) {
    std::size_t rows = 0;
    Environment watched = environment();
    watched.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t more) {
      if (statement == name) rows += more;
    };
    Database fresh(test_store().address(), {.pool_size = 1}, watched);
    BoxOptions opened = options();
    opened.deploy_schema = false;
    Outbox box(fresh, opened);
    body(Admin{box});
    return rows;
  }

  NewMessage keyed(std::string id, std::string key, Duration ahead = {}) {
    NewMessage message = a_message();
    message.id = MessageId{std::move(id)};
    message.extras.partition_key = PartitionKey{std::move(key)};
    if (ahead != Duration{}) message.extras.due_at = clock().now() + ahead;
    return message;
  }
};

TEST_P(BoundedView, counts_tell_the_largest_topics_apart_and_sum_up_the_others) {
  enqueue_topics(many);
  outbox().enqueue(std::vector<NewMessage>(3, a_message("large")));
  Counts counts;
  const std::size_t rows = rows_of("count", [&](Admin admin) { counts = admin.counts(); });
  EXPECT_LE(rows, static_cast<std::size_t>(Counts::max_names) + 2);  // other topics, one handler
  EXPECT_EQ(counts.all.open(), many + 3);
  ASSERT_EQ(counts.by_topic.size(), static_cast<std::size_t>(Counts::max_names));
  EXPECT_EQ(counts.by_topic.at("large").ready, 3);
  EXPECT_EQ(counts.other_topics.names, many + 1 - Counts::max_names);
  EXPECT_EQ(counts.other_topics.counts.ready, many + 1 - Counts::max_names);
  EXPECT_EQ(counts.by_handler.size(), 1u);
  EXPECT_EQ(counts.other_handlers.names, 0);
}

TEST_P(BoundedView, a_topic_with_open_and_dead_messages_is_counted_whole) {
  make_dead({"one", "two"});
  enqueue_topics(3);
  const Counts counts = admin().counts(true, 1);
  ASSERT_EQ(counts.by_topic.size(), 1u);
  EXPECT_EQ(counts.by_topic.at("order.placed").dead, 2);
  EXPECT_EQ(counts.other_topics.names, 3);
  EXPECT_EQ(counts.other_topics.counts.ready, 3);
  EXPECT_EQ(counts.all.dead, 2);
}

TEST_P(BoundedView, holders_of_leases_are_bounded_like_topics) {
  enqueue_topics(4);
  for (const OwnerToken& owner : {worker_a, worker_a, worker_b})
    ASSERT_EQ(outbox().claim(owner, 30s, 1).size(), 1u);
  ASSERT_EQ(outbox().claim(OwnerToken::make(environment()), 30s, 1).size(), 1u);
  const Counts counts = admin().counts(false, 1);
  EXPECT_EQ(counts.by_owner, (std::map<Uuid, std::int64_t>{{worker_a.uuid(), 2}}));
  EXPECT_EQ(counts.other_owners.names, 2);
  EXPECT_EQ(counts.other_owners.counts.leased, 2);
}

TEST_P(BoundedView, dead_letters_with_thousands_of_errors_are_the_largest_groups_and_a_rest) {
  std::vector<std::string> errors = different_errors(many);
  for (int i = 0; i < 300; ++i) errors.insert(errors.begin() + i * 16, "no route to host");
  make_dead(errors);
  const auto check = [&](const DeadGroups& dead, std::size_t groups) {
    ASSERT_EQ(dead.groups.size(), groups);
    EXPECT_EQ(dead.groups[0].error, "no route to host");
    std::int64_t shown = 0;
    for (const DeadGroup& group : dead.groups) shown += group.count;
    EXPECT_EQ(shown + dead.other, many + 300);
  };
  check(admin().dead_groups(), static_cast<std::size_t>(DeadGroups::max_groups));
  EXPECT_EQ(admin().dead_groups().groups[0].count, 300);
  check(admin().dead_groups(5), 5);
  const CountsSnapshot counts_snapshot = admin().counts_snapshot(10, 20);
  check(counts_snapshot.dead, 20);
  EXPECT_EQ(counts_snapshot.counts.all.dead, many + 300);
}

TEST_P(BoundedView, workers_and_named_leases_come_in_pages) {
  Workers workers{outbox()};
  NamedLeases leases{outbox()};
  for (int i = 0; i < 7; ++i) {
    const OwnerToken owner = OwnerToken::make(environment());
    workers.heartbeat(owner, "host:" + std::to_string(i), "1");
    ASSERT_TRUE(leases.try_acquire(LeaseName{"chore." + letters(i)}, owner, 1min));
  }
  EXPECT_EQ(workers.list(3).size(), 3u);
  std::vector<std::string> names;
  for (std::string after;;) {
    const auto page = leases.held(3, after);
    if (page.empty()) break;
    EXPECT_LE(page.size(), 3u);
    for (const LeaseHolder& one : page) names.push_back(one.lease.name.str());
    after = names.back();
  }
  EXPECT_EQ(names.size(), 7u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST_P(BoundedView, a_message_shows_its_latest_attempts) {
  outbox().enqueue(keyed("m", "k"));
  const auto attempts = static_cast<int>(MessageDetail::max_timeline) + 5;
  for (int i = 0; i < attempts; ++i) {
    ASSERT_EQ(outbox().abandon(worker_a, outbox().claim(worker_a, 30s, 1), "no", 1s), 1u);
    clock().advance(1s);
    if (i == MessageDetail::max_timeline - 1) {
      EXPECT_FALSE(admin().get(MessageId{"m"})->more_attempts);
    }
  }
  const auto detail = admin().get(MessageId{"m"});
  EXPECT_TRUE(detail->more_attempts);
  ASSERT_EQ(std::ssize(detail->timeline), MessageDetail::max_timeline);
  EXPECT_EQ(detail->timeline.front().attempt, 6);
  EXPECT_EQ(detail->timeline.back().attempt, attempts);
}

TEST_P(BoundedView, an_id_of_many_sources_is_refused_with_a_few_of_their_names) {
  for (int i = 0; i < 30; ++i) inbox().accept(an_arrival("same", "source." + letters(i)));
  try {
    std::ignore = Admin{inbox()}.get(MessageId{"same"});
    FAIL() << "it names no source";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_EQ(std::ranges::count(text, ','), 10) << text;
    EXPECT_NE(text.find(", …"), std::string::npos) << text;
  }
}

TEST_P(BoundedView, a_key_that_waits_for_a_due_time_far_away_is_named_everywhere) {
  outbox().enqueue(keyed("far", "a", 30 * 24h));
  outbox().enqueue(keyed("behind", "a"));
  outbox().enqueue(keyed("last", "a"));
  outbox().enqueue(keyed("soon", "b", 1h));
  outbox().enqueue(keyed("behind soon", "b"));
  outbox().enqueue(keyed("alone", "c", 30 * 24h));
  NewMessage plain = a_message();
  plain.extras.due_at = clock().now() + 30 * 24h;
  outbox().enqueue(plain);

  const auto blocked = admin().blocked_keys();
  ASSERT_EQ(blocked.size(), 1u);
  EXPECT_EQ(blocked[0].key, PartitionKey{"a"});
  EXPECT_EQ(blocked[0].id, MessageId{"far"});
  EXPECT_EQ(blocked[0].due_at, clock().now() + 30 * 24h);
  EXPECT_EQ(blocked[0].waiting, 2);
  EXPECT_EQ(admin().counts_snapshot().blocked_keys.size(), 1u);
  ASSERT_EQ(admin().get(MessageId{"far"})->blocked_keys.size(), 1u);
  EXPECT_EQ(admin().get(MessageId{"far"})->blocked_keys[0].waiting, 2);
  EXPECT_TRUE(admin().get(MessageId{"behind"})->blocked_keys.empty());
  EXPECT_TRUE(admin().get(MessageId{"alone"})->blocked_keys.empty());

  const Health health = check_health(outbox());
  EXPECT_EQ(health.state, HealthState::degraded);
  EXPECT_EQ(health.blocked, 1);
  EXPECT_NE(health.reasons.at(0).find("1 partition key waits for a delivery that is due in more "
                                      "than 1 h"),
            std::string::npos)
      << health.reasons[0];

  ASSERT_EQ(admin().postpone(Filter{.id = MessageId{"far"}}, clock().now() + 1h), 1u);
  EXPECT_TRUE(admin().blocked_keys().empty());
  EXPECT_EQ(check_health(outbox()).state, HealthState::healthy);
}

TEST_P(BoundedView, the_doctor_names_a_key_that_waits_for_a_due_time_far_away) {
  outbox().enqueue(keyed("far", "a", 30 * 24h));
  outbox().enqueue(keyed("behind", "a"));
  std::vector<Finding> order;
  for (const Finding& finding : examine_box(database(), BoxKind::outbox, options())) {
    if (finding.check == "order") order.push_back(finding);
  }
  ASSERT_EQ(order.size(), 1u);
  EXPECT_NE(order[0].found.find("partition key a waits for far, which is due 20"),
            std::string::npos)
      << order[0].found;
  EXPECT_NE(order[0].found.find("1 message waits behind it"), std::string::npos) << order[0].found;
  EXPECT_NE(order[0].fix.find("twinbox postpone far"), std::string::npos) << order[0].fix;
}

TEST_P(BoundedView, what_is_postponed_for_ever_shows_its_age) {
  outbox().enqueue(a_message("slow"));
  for (int day = 0; day < 3; ++day) {
    ASSERT_EQ(admin().postpone(Filter{.topic = Topic{"slow"}}, Duration{24h + 1s}), 1u);
    clock().advance(24h);
  }
  outbox().enqueue(a_message("new"));
  clock().advance(500ms);
  const Counts counts = admin().counts();
  EXPECT_EQ(counts.by_topic.at("slow").oldest_pending, std::nullopt) << "it is not due";
  EXPECT_EQ(counts.by_topic.at("slow").oldest_open, Duration{72h + 500ms});
  EXPECT_EQ(counts.by_topic.at("new").oldest_open, Duration{500ms});
  EXPECT_EQ(counts.all.oldest_pending, Duration{500ms});
  EXPECT_EQ(counts.all.oldest_open, Duration{72h + 500ms});
  EXPECT_EQ(admin().counts_snapshot().counts.all.oldest_open, Duration{72h + 500ms});
}

// A store in memory has one connection, and these tests open another.
TWINBOX_ON_BACKENDS(BoundedView, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
