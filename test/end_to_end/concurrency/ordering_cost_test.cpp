// A key that cannot go on costs nobody else anything, however many messages wait behind its head.
#include "end_to_end/concurrency/shared_store.hpp"
#include "support/postgres_plan.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

constexpr std::int64_t batch = 50;
constexpr int free_messages = 300;
constexpr int poisoned_messages = 100;

int long_key() { return std::getenv("TWINBOX_CAMPAIGN_SECONDS") == nullptr ? 10'000 : 100'000; }

class OrderingCost : public BoxTest {
 protected:
  /// Messages under `key`, or without one, due in an hour, when it is empty.
  static void fill(Outbox& outbox, const std::string& key, int count, Instant later) {
    std::vector<NewMessage> messages;
    for (int i = 0; i < count; ++i) {
      messages.push_back(a_message("keyed"));
      if (key.empty()) {
        messages.back().extras.due_at = later;
      } else {
        messages.back().extras.partition_key = PartitionKey{key};
      }
      if (messages.size() == 1000 || i + 1 == count) {
        outbox.enqueue(messages);
        messages.clear();
      }
    }
  }

  /// One key that always fails, one with a long queue behind a head in backoff.
  void burden(Outbox& outbox) {
    fill(outbox, "poisoned", poisoned_messages, {});
    fill(outbox, "long", long_key(), {});
  }

  static void fill_free(Outbox& outbox) {
    std::vector<NewMessage> messages(free_messages, a_message("free"));
    outbox.enqueue(messages);
  }

  std::unique_ptr<Outbox> open(Database& database, const std::string& table) {
    BoxOptions opened = options();
    opened.table = table;
    opened.hold_keys = true;
    return std::make_unique<Outbox>(database, opened);
  }

  /// Pages touched by each claim of a batch of the free messages.
  std::vector<long> buffers_per_claim(Outbox& outbox, const std::string& table) {
    std::vector<long> buffers;
    for (int i = 0; i < free_messages / batch; ++i) {
      std::vector<Message> claimed;
      auto plans =
          plans_of("with picked as", [&] { claimed = outbox.claim(worker_a, 30s, batch); });
      std::erase_if(plans, [&](const ExecutedPlan& plan) {
        return plan.query.find(table + "_work") == std::string::npos;
      });
      EXPECT_EQ(plans.size(), 1u);
      EXPECT_EQ(claimed.size(), std::size_t{batch});
      for (const ExecutedPlan& plan : plans) {
        buffers.push_back(plan.buffers);
        EXPECT_LE(plan.most_rows, batch) << plan.text;
      }
      outbox.ack(worker_a, claimed);
    }
    return buffers;
  }
};

TEST_P(OrderingCost, a_key_in_backoff_holds_up_its_own_messages_only) {
  burden(outbox());
  fill(outbox(), "other", 50, {});
  fill_free(outbox());
  std::map<std::string, int> calls;
  Handlers handlers;
  handlers.on(Topic{"free"}, [&](const Message&) { ++calls["free"]; });
  handlers.on(Topic{"keyed"}, [&](const Message& message) {
    const std::string key = message.partition_key->str();
    ++calls[key];
    return key == "other" ? Outcome::done() : Outcome::retry("poisoned", 1h);
  });
  Dispatcher dispatcher(outbox(), handlers);
  dispatcher.drain();
  const std::map<std::string, int> first{
      {"free", free_messages}, {"long", 1}, {"other", 50}, {"poisoned", 1}};
  EXPECT_EQ(calls, first);
  clock().advance(2h);
  EXPECT_EQ(dispatcher.drain(), 2u) << "the two heads, again";
  const StateCounts counts = Admin(outbox()).counts().all;
  EXPECT_EQ(counts.waiting, poisoned_messages + long_key() - 2);
  EXPECT_EQ(counts.scheduled, 2);
}

TEST_P(OrderingCost, a_key_that_a_dead_letter_holds_holds_up_its_own_messages_only) {
  BoxOptions holding = options();
  holding.hold_keys = true;
  Outbox strict(database(), holding);
  burden(strict);
  fill(strict, "other", 50, {});
  fill_free(strict);
  std::map<std::string, int> calls;
  Handlers handlers;
  handlers.on(Topic{"free"}, [&](const Message&) { ++calls["free"]; });
  handlers.on(Topic{"keyed"}, [&](const Message& message) {
    const std::string key = message.partition_key->str();
    ++calls[key];
    return key == "other" ? Outcome::done() : Outcome::dead("poisoned");
  });
  Dispatcher dispatcher(strict, handlers);
  dispatcher.drain();
  const std::map<std::string, int> first{
      {"free", free_messages}, {"long", 1}, {"other", 50}, {"poisoned", 1}};
  EXPECT_EQ(calls, first);
  const StateCounts counts = Admin(strict).counts().all;
  EXPECT_EQ(counts.waiting, poisoned_messages + long_key() - 2);
  EXPECT_EQ(counts.dead, 2);
  const std::vector<HeldKey> held = Admin(strict).held_keys();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].waiting, poisoned_messages - 1);
  EXPECT_EQ(held[1].waiting, HeldKey::max_counted) << "it counts no further than it has to";
  ASSERT_EQ(Admin(strict).discard(Filter{.state = StateFilter::dead}, {.reason = "test"}), 2u);
  EXPECT_EQ(dispatcher.step(), 2u) << "the next of each";
}

TWINBOX_ON_BACKENDS(OrderingCost, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

class PostgresOrderingCost : public OrderingCost {};

TEST_P(PostgresOrderingCost, claims_touch_as_many_pages_as_without_the_keys_that_cannot_go_on) {
  Database seen(explained(test_store().address()), {}, environment());
  // As many messages in both, so that both have indexes of the same height.
  const auto light = open(seen, "light");
  fill(*light, "", poisoned_messages + long_key(), clock().now() + 1h);
  fill_free(*light);
  const auto burdened = open(seen, "burdened");
  burden(*burdened);
  const std::vector<Message> heads = burdened->claim(worker_a, 30s, batch);
  ASSERT_EQ(heads.size(), 2u);
  ASSERT_EQ(burdened->abandon(worker_a, heads.at(0), "poisoned", 1h), 1u);
  ASSERT_EQ(burdened->fail(worker_a, heads.at(1), "poisoned"), 1u) << "it holds its key";
  fill_free(*burdened);

  const std::vector<long> before = buffers_per_claim(*light, "light");
  const std::vector<long> after = buffers_per_claim(*burdened, "burdened");
  RecordProperty("buffers_without", ::testing::PrintToString(before));
  RecordProperty("buffers_with", ::testing::PrintToString(after));
  ASSERT_EQ(before.size(), after.size());
  // Keys that cannot go on would cost every claim. Others cost a little more while any transaction
  // of the server is open, an analyze too: it keeps what was acked in their way. The same row may
  // lie on one page or on two.
  EXPECT_LE(std::ranges::min(after), std::ranges::min(before) * 11 / 10)
      << ::testing::PrintToString(after);
}

TWINBOX_ON_BACKENDS(PostgresOrderingCost, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
