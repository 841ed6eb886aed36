// Whoever looks at a SQLite store reads beside the writers.
#include <sqlite3.h>

#include "support/outbox_test.hpp"
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class SqliteHealth : public OutboxTest {
 protected:
  SqliteHealth() {
    outbox();
    EXPECT_EQ(sqlite3_open(test_store().file().c_str(), &handle_), SQLITE_OK);
  }
  ~SqliteHealth() override { sqlite3_close(handle_); }

  std::string look(const std::string& sql) {
    std::string value;
    EXPECT_EQ(sqlite3_exec(
                  handle_, sql.c_str(),
                  [](void* found, int, char** values, char**) {
                    *static_cast<std::string*>(found) = values[0];
                    return 0;
                  },
                  &value, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(handle_);
    return value;
  }

 private:
  sqlite3* handle_ = nullptr;
};

TEST_P(SqliteHealth, EVB_34_a_reader_in_its_transaction_holds_up_no_writer) {
  outbox().enqueue(std::vector<NewMessage>(5, a_message()));
  look("begin");
  ASSERT_EQ(look("select count(*) from outbox where Status = 0"), "5");
  const auto held = outbox().claim(worker_a, 30s, 5);
  EXPECT_EQ(outbox().ack(worker_a, held), 5u);
  outbox().enqueue(a_message());
  EXPECT_EQ(look("select count(*) from outbox where Status = 0"), "5") << "what it began with";
  look("commit");
  EXPECT_EQ(look("select count(*) from outbox where Status = 0"), "1");
}

TEST_P(SqliteHealth, EVB_34_a_writer_in_its_transaction_holds_up_no_reader) {
  outbox().enqueue(std::vector<NewMessage>(5, a_message()));
  look("begin immediate");
  look("update outbox_work set attempts = 7");
  EXPECT_EQ(Admin{outbox()}.counts(true).all.ready, 5);
  EXPECT_EQ(check_health(outbox()).pending, 5);
  EXPECT_EQ(Admin{outbox()}.list({}).entries.at(0).delivery.attempts, 0);
  look("rollback");
}

TWINBOX_ON_BACKENDS(SqliteHealth, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
