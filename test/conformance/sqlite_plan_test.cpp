// How SQLite finds what claim and the settles ask for.
#include <sqlite3.h>

#include "support/outbox_test.hpp"
#include <twinbox/native_sessions.hpp>
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SqlitePlan : public OutboxTest {
 protected:
  SqlitePlan() {
    const bool in_memory = GetParam() == Backend::sqlite_memory;
    outbox();
    EXPECT_EQ(sqlite3_open(in_memory ? ":memory:" : place().file().c_str(), &handle_), SQLITE_OK);
    if (in_memory) run(Schema(database(), BoxKind::outbox, options()).print());
  }
  ~SqlitePlan() override { sqlite3_close(handle_); }

  void run(const std::string& sql) {
    EXPECT_EQ(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(handle_);
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
  sqlite3* handle() { return handle_; }

 private:
  sqlite3* handle_ = nullptr;
};

TEST_P(SqlitePlan, OBX_100_claim_and_the_settles_read_index_ranges_and_never_a_whole_table) {
  SqliteSession session(handle());
  run("begin immediate");
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
  run("commit");
}

TEST_P(SqlitePlan, IBX_122_IBX_125_an_inbox_claims_and_knows_its_messages_by_index) {
  inbox();
  if (GetParam() == Backend::sqlite_memory)
    run(Schema(database(), BoxKind::inbox, options()).print());
  SqliteSession session(handle());
  run("begin immediate");
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
  run("commit");
}

TWINBOX_ON_BACKENDS(SqlitePlan, Backend::sqlite_file, Backend::sqlite_memory);

}  // namespace
}  // namespace twinbox::test
