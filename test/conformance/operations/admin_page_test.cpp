// Pages while everything moves, and what numbers may cost.
#include <atomic>
#include <fstream>
#include <map>
#include <thread>

#include "support/outbox_test.hpp"
#include "support/race.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class AdminPages : public OutboxTest {
 protected:
  static constexpr int half = 60;

  /// Every second message is left alone by everybody: those must be on some page, once.
  void SetUp() override {
    for (int i = 0; i < 2 * half; ++i) outbox().enqueue(a_message(i % 2 == 0 ? "still" : "moving"));
    outbox().fail(worker_a, outbox().claim(worker_a, 30s, 2 * half), "boom");
  }

  /// Dies, is sent again, finishes, comes anew, until `stop`.
  void move_on(const std::atomic<bool>& stop) {
    Admin admin{outbox()};
    const Filter moving{.state = StateFilter::dead, .topic = Topic{"moving"}};
    for (int round = 0; !stop; ++round) {
      admin.requeue(moving, {}, {.limit = half / 2, .batch = 7});
      auto held = outbox().claim(worker_b, 30s, half);
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (i % 9 == 0) {
          outbox().ack(worker_b, held[i]);
        } else {
          outbox().fail(worker_b, held[i], "again");
        }
      }
      if (round % 3 == 0) {
        outbox().enqueue(a_message("moving"));
        outbox().fail(worker_b, outbox().claim(worker_b, 30s, 1), "new");
      }
    }
  }

  /// Reads all pages while the others move; every key at most once, every still one exactly once.
  void read_pages(StateFilter state, std::int64_t limit) {
    Admin admin{outbox()};
    std::map<DeliveryKey, int> shown;
    int still = 0;
    std::optional<DeliveryKey> last;
    std::optional<DeliveryKey> after;
    do {
      const Page page = admin.list({.state = state}, limit, after);
      for (const DeliveryEntry& entry : page.entries) {
        EXPECT_EQ(++shown[entry.delivery.key], 1) << entry.delivery.key.number;
        if (last) {
          EXPECT_LT(entry.delivery.key.number, last->number);
        }
        last = entry.delivery.key;
        if (entry.message.topic == Topic{"still"}) {
          ++still;
          EXPECT_EQ(entry.delivery.state, DeliveryState::dead);
        }
      }
      after = page.next;
    } while (after);
    EXPECT_EQ(still, half);
  }
};

TEST_P(AdminPages, nothing_is_skipped_or_shown_twice_while_rows_die_and_come_back_and_finish) {
  std::atomic<bool> stop = false;
  race(3, [&](int role) {
    if (role > 0) {
      move_on(stop);
      return;
    }
    for (int round = 0; round < 12; ++round)
      read_pages(round % 2 == 0 ? StateFilter::dead : StateFilter::any, 7 + round);
    stop = true;
  });
}

TWINBOX_ON_EVERY_BACKEND(AdminPages);

/// Messages with large payloads, and how much was read of them.
class NumbersCost : public OutboxTest {
 protected:
  static constexpr int messages = 60;
  static constexpr std::size_t size = 200'000;

  void SetUp() override {
    std::string content = payload();
    for (std::size_t i = 0; content.size() < size; ++i)
      content += static_cast<char>('!' + i * i % 89 + i % 5);
    for (int i = 0; i < messages; ++i) {
      outbox().enqueue(
          NewMessage{.topic = Topic{"order.placed"}, .payload = content, .extras = {}});
    }
    const auto held = outbox().claim(worker_a, 30s, messages / 2);
    for (std::size_t i = 0; i < held.size(); ++i)
      outbox().fail(worker_a, held[i], "order " + std::to_string(i) + " unknown");
    Admin{outbox()}.edit(1, {.payload = content + "x"}, {.actor = "mia"});
  }

  static std::int64_t bytes_read() {
    std::ifstream io{"/proc/self/io"};
    std::string name;
    std::int64_t value = 0;
    io >> name >> value;
    return name == "rchar:" ? value : -1;
  }
  /// Large values that were fetched, of any message.
  std::int64_t large_reads() {
    return count(
        "select coalesce(sum(toast_blks_read + toast_blks_hit), 0)::bigint from "
        "pg_statio_all_tables "
        "where schemaname = '" +
        test_store().schema() + "'");
  }
};

TEST_P(NumbersCost, counts_groups_lists_and_the_audit_read_no_payload) {
  Database fresh(test_store().address(), {.pool_size = 1}, environment());
  BoxOptions opened = options();
  opened.deploy_schema = false;
  Outbox box(fresh, opened);
  Admin admin{box};
  const auto look = [&] {
    EXPECT_EQ(admin.counts().all.dead, messages / 2);
    EXPECT_EQ(admin.counts_snapshot().dead.groups.size(), 1u);
    EXPECT_EQ(admin.dead_groups().groups.at(0).count, messages / 2);
    EXPECT_EQ(admin.list({}).entries.size(), 50u);
    EXPECT_EQ(admin.list({.state = StateFilter::dead}).entries.size(), 30u);
    EXPECT_EQ(admin.audit().entries.size(), 1u);
  };
  if (on_postgres()) {
    const auto flush = [&] {
      fresh.in_transaction(
          [](Session& session) { session.execute("select pg_stat_force_next_flush()"); });
    };
    flush();
    const std::int64_t before = large_reads();
    look();
    flush();
    EXPECT_EQ(large_reads(), before);
    ASSERT_TRUE(admin.get(admin.list({}).entries.at(0).message.id));
    flush();
    EXPECT_GT(large_reads(), before) << "the measurement shows nothing";
  } else {
    const std::int64_t before = bytes_read();
    ASSERT_GE(before, 0);
    look();
    EXPECT_LT(bytes_read() - before, static_cast<std::int64_t>(messages * size / 10));
  }
}

// On SQL Server nothing that tells how much was read of large values could be tried.
TWINBOX_ON_BACKENDS(NumbersCost, Backend::sqlite_file, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
