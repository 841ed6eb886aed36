// How SQLite finds what claim and the settles ask for.
#include <functional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "support/outbox_test.hpp"
#include <twinbox/session.hpp>

namespace twinbox::test {
namespace {

/// The connection that was opened last.
sqlite3* opened = nullptr;

int note_opened(sqlite3* handle, const char** /*error*/, const void* /*routines*/) {
  opened = handle;
  return SQLITE_OK;
}

class SqlitePlan : public OutboxTest {
 protected:
  SqlitePlan() {
    // A database in memory has no second connection: there the library's own is asked.
    const auto note = reinterpret_cast<void (*)()>(&note_opened);
    if (in_memory()) sqlite3_auto_extension(note);
    outbox();
    if (in_memory()) {
      sqlite3_cancel_auto_extension(note);
      handle_ = opened;
    } else {
      EXPECT_EQ(sqlite3_open(test_store().file().c_str(), &handle_), SQLITE_OK);
    }
  }
  ~SqlitePlan() override {
    if (!in_memory()) sqlite3_close(handle_);
  }

  void in_transaction(const std::function<void(Session&)>& work) {
    if (in_memory()) return database().in_transaction(work);
    SqliteSession session(handle_);
    EXPECT_EQ(sqlite3_exec(handle_, "begin immediate", nullptr, nullptr, nullptr), SQLITE_OK);
    work(session);
    EXPECT_EQ(sqlite3_exec(handle_, "commit", nullptr, nullptr, nullptr), SQLITE_OK);
  }
  /// The plan of every statement that the connection has prepared, line by line.
  std::vector<std::string> plans() {
    std::vector<std::string> lines;
    for (sqlite3_stmt* one = sqlite3_next_stmt(handle_, nullptr); one != nullptr;
         one = sqlite3_next_stmt(handle_, one)) {
      const std::string sql = std::string{"explain query plan "} + sqlite3_sql(one);
      sqlite3_exec(
          handle_, sql.c_str(),
          [](void* found, int, char** values, char**) {
            static_cast<std::vector<std::string>*>(found)->emplace_back(values[3]);
            return 0;
          },
          &lines, nullptr);
    }
    return lines;
  }
  /// How many steps of SQLite's machine the connection's statements on `table` have taken.
  long steps(const std::string& table) {
    long sum = 0;
    for (sqlite3_stmt* one = sqlite3_next_stmt(handle_, nullptr); one != nullptr;
         one = sqlite3_next_stmt(handle_, one)) {
      if (std::string_view{sqlite3_sql(one)}.find(table) == std::string_view::npos) continue;
      sum += sqlite3_stmt_status(one, SQLITE_STMTSTATUS_VM_STEP, 0);
    }
    return sum;
  }

 private:
  [[nodiscard]] static bool in_memory() { return GetParam() == Backend::sqlite_memory; }

  sqlite3* handle_ = nullptr;
};

TEST_P(SqlitePlan, OBX_100_claim_and_the_settles_read_index_ranges_and_never_a_whole_table) {
  in_transaction([&](Session& session) {
    NewMessage keyed = a_message();
    keyed.extras.partition_key = PartitionKey{"k"};
    outbox().enqueue(session, std::vector{keyed, a_message(), a_message(), a_message()});
    const auto held = outbox().claim(session, worker_a, 30s, 3);
    ASSERT_EQ(held.size(), 3u);
    outbox().ack(session, worker_a, held[0]);
    outbox().abandon(session, worker_a, held[1]);
    outbox().fail(session, worker_a, held[2], "error");
    outbox().enqueue(session, std::vector(20, a_message()));
    EXPECT_EQ(outbox().ack(session, worker_a, outbox().claim(session, worker_a, 30s, 20)), 20u);
    bool by_visibility = false;
    for (const std::string& line : plans()) {
      by_visibility = by_visibility || line.find("USING INDEX outbox_work_visible") != line.npos;
      for (const char* table :
           {"outbox_work", "outbox_message", "outbox_outcome", "outbox_failure"}) {
        EXPECT_EQ(line.find(std::string{"SCAN "} + table), line.npos) << line;
      }
      for (const char* alias : {"SCAN w ", "SCAN m ", "SCAN d "}) {
        EXPECT_EQ((line + " ").find(alias), line.npos) << line;
      }
    }
    EXPECT_TRUE(by_visibility);
  });
}

TEST_P(SqlitePlan, IBX_122_IBX_125_an_inbox_claims_and_knows_its_messages_by_index) {
  inbox();
  in_transaction([&](Session& session) {
    inbox().accept(session, an_arrival());
    EXPECT_TRUE(inbox().accept(session, an_arrival()).duplicate());
    EXPECT_FALSE(inbox().already_processed(session, a_key()));
    ASSERT_EQ(inbox().claim(session, worker_a, 30s, 10).size(), 1u);
    bool by_visibility = false;
    bool by_key = false;
    for (const std::string& line : plans()) {
      by_visibility = by_visibility || line.find("USING INDEX inbox_work_visible") != line.npos;
      by_key = by_key || line.find("inbox_message_key (id=? AND source=?)") != line.npos;
      for (const char* table : {"SCAN inbox_work", "SCAN inbox_message", "SCAN inbox_outcome",
                                "SCAN w ", "SCAN m ", "SCAN d "})
        EXPECT_EQ((line + " ").find(table), line.npos) << line;
    }
    EXPECT_TRUE(by_visibility);
    EXPECT_TRUE(by_key);
  });
}

TEST_P(SqlitePlan, prune_reads_neither_what_must_stay_nor_what_is_young) {
  constexpr long prunable = 100;
  const auto days_ago = [&](int days) {
    return std::to_string((clock().now() - days * 24h).time_since_epoch().count());
  };
  // In front: a quarter each dead, only seen, open, and under mark_processing. Then 20 000 that
  // are too young, and behind them those that go.
  write(
      "with recursive n(i) as (select 1 union all select i + 1 from n where i < 40100) "
      "insert into outbox_message (source, id, topic, payload, created_at, last_seen_at) "
      "select '-', i, 'order.placed', '~payload~', " +
      days_ago(100) + ", " + days_ago(100) + " from n");
  write(
      "insert into outbox_outcome (number, delivery_id, finished_at, state) "
      "select number, case when number % 4 = 0 then number end, " +
      days_ago(100) +
      ", case when number % 4 = 0 then 2 else 4 end from outbox_message "
      "where number <= 20000 and number % 4 in (0, 1)");
  write("insert into outbox_work (number, visible_at) select number, " + days_ago(100) +
        " from outbox_message where number <= 20000 and number % 4 = 2");
  write(
      "insert into outbox_outcome (number, delivery_id, finished_at, state) select number, number, "
      "case when number > 40000 then " +
      days_ago(50) + " else " + days_ago(1) + " end, 1 from outbox_message where number > 20000");
  in_transaction([&](Session& session) {
    const long before = steps("outbox_message");
    EXPECT_EQ(outbox().prune(session, {.older_than = 7 * 24h}), 100u);
    const long taken = steps("outbox_message") - before;
    EXPECT_GT(taken, prunable);
    EXPECT_LE(taken, 500 * prunable);
    bool by_age = false;
    for (const std::string& line : plans())
      by_age = by_age || line.find("USING INDEX outbox_outcome_finished") != line.npos;
    EXPECT_TRUE(by_age);
  });
}

TWINBOX_ON_BACKENDS(SqlitePlan, Backend::sqlite_file, Backend::sqlite_memory);

}  // namespace
}  // namespace twinbox::test
