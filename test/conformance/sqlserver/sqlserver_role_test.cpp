// A login of the application's own, with the rights that the grants script names and no more.
#include "support/outbox_test.hpp"
#include "support/reused_schema.hpp"
#include <twinbox/health.hpp>
#include <twinbox/housekeeping.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SqlserverRole : public OutboxTest {
 protected:
  SqlserverRole() : role_(test_store().schema() + "_app") {}

  void SetUp() override {
    if (IsSkipped()) return;
    outbox();
    inbox();
    made_ = true;
    write("create login \"" + role_ + "\" with password = 'A long enough 1.'");
    write("create user \"" + role_ + "\" for login \"" + role_ + "\"");
  }
  void TearDown() override {
    if (!made_) return;
    revoke();
    write("drop user \"" + role_ + "\"");
    try {
      write("drop login \"" + role_ + "\"");
    } catch (const DatabaseError&) {
      // A driver manager that keeps connections is still logged in.
    }
  }

  enum class Part { procedures, whole };
  void grant(BoxKind kind, Part part) {
    const std::string script = Schema(database(), kind, options()).print_grants(role_);
    const std::size_t half = script.find("-- What the library");
    ASSERT_NE(half, std::string::npos);
    for (std::size_t begin = 0; begin < script.size();) {
      const std::size_t end = script.find('\n', begin);
      const std::string line = script.substr(begin, end - begin);
      if (part == Part::procedures && begin >= half) break;
      if (line.starts_with("grant ")) {
        write(line);
        granted_.push_back(line);
      }
      begin = end + 1;
    }
  }
  void grant_enqueue() {
    const std::string script =
        Schema(database(), BoxKind::outbox, options()).print_enqueue_grants(role_);
    const std::size_t begin = script.find("grant ");
    ASSERT_NE(begin, std::string::npos);
    write(granted_.emplace_back(script.substr(begin, script.find(';', begin) - begin)));
  }
  /// A login that still has rights cannot be dropped everywhere.
  void revoke() {
    for (std::string line : granted_) {
      line.replace(line.rfind(" to "), 4, " from ");
      write("revoke" + line.substr(line.find(' ')));
    }
  }
  /// The test server's connection string with the login as its user.
  [[nodiscard]] std::string address() {
    std::string text = test_store().address();
    const auto replace = [&](const std::string& name, const std::string& value) {
      const std::size_t begin = text.find(name) + name.size();
      text.replace(begin, text.find(';', begin) - begin, value);
    };
    replace("UID=", role_);
    replace("PWD=", "A long enough 1.");
    return text;
  }
  BoxOptions without_deployment() {
    BoxOptions result = options();
    result.deploy_schema = false;
    return result;
  }
  void expect_forbidden(Database& database, const std::string& sql) {
    try {
      database.in_transaction([&](Session& session) { session.execute(in_schema(sql)); });
      ADD_FAILURE() << "was allowed: " << sql;
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::permission) << error.what();
    }
  }

 private:
  std::string role_;
  std::vector<std::string> granted_;
  bool made_ = false;
};

TEST_P(SqlserverRole, OBX_104_the_granted_rights_are_enough_for_the_whole_life_of_a_message) {
  grant(BoxKind::outbox, Part::whole);
  Database database(address(), {}, environment());
  Outbox outbox(database, without_deployment());
  NewMessage keyed = a_message("keyed");
  keyed.extras.partition_key = PartitionKey{"k"};
  keyed.extras.expires_at = clock().now() + 1h;
  outbox.enqueue(std::vector{keyed, keyed});
  outbox.enqueue(std::vector<NewMessage>(3, a_message()));
  const auto held = outbox.claim(worker_a, 10s, 10);
  ASSERT_EQ(held.size(), 4u);
  EXPECT_EQ(outbox.renew(worker_a, held, 10s).size(), 4u);
  EXPECT_EQ(outbox.ack(worker_a, held[0]), 1u);
  EXPECT_EQ(outbox.abandon(worker_a, held[1], "error"), 1u);
  EXPECT_EQ(outbox.fail(worker_a, held[2], "error"), 1u);
  clock().advance(11s);
  EXPECT_EQ(outbox.reap(), 1u);
  Admin admin(outbox);
  EXPECT_EQ(admin.counts(true).all.dead, 1);
  EXPECT_EQ(admin.requeue(Filter{.state = StateFilter::dead}), 1u);
  clock().advance(2h);
  EXPECT_GE(outbox.expire(), 1u);
  EXPECT_GE(admin.discard(Filter{.state = StateFilter::dead}, {.reason = "test"}), 1u);
  EXPECT_GE(outbox.prune({.older_than = 0s}), 1u);
  NamedLeases leases(outbox);
  const auto lease = leases.try_acquire(LeaseName{"cleanup"}, worker_a, 30s);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(leases.release(*lease));
  Workers workers(outbox);
  workers.heartbeat(worker_a, "host:1", "0.1.0");
  EXPECT_EQ(workers.list().size(), 1u);
}

TEST_P(SqlserverRole, OBX_104_the_granted_rights_let_it_hold_a_key_and_let_it_go) {
  grant(BoxKind::outbox, Part::whole);
  Database database(address(), {}, environment());
  BoxOptions holding = without_deployment();
  holding.hold_keys = true;
  Outbox outbox(database, holding);
  NewMessage keyed = a_message("keyed");
  keyed.extras.partition_key = PartitionKey{"k"};
  outbox.enqueue(std::vector{keyed, keyed});
  Admin admin(outbox);
  EXPECT_EQ(outbox.fail(worker_a, outbox.claim(worker_a, 10s, 10), "error"), 1u);
  EXPECT_EQ(admin.requeue(Filter{.state = StateFilter::dead}), 1u);
  EXPECT_EQ(outbox.fail(worker_a, outbox.claim(worker_a, 10s, 10), "error"), 1u);
  EXPECT_EQ(admin.held_keys().size(), 1u);
  EXPECT_EQ(admin.discard(Filter{.state = StateFilter::dead}, {.reason = "test"}), 1u);
  EXPECT_EQ(outbox.ack(worker_a, outbox.claim(worker_a, 10s, 10)), 1u);
}

TEST_P(SqlserverRole, OBX_105_whoever_calls_the_procedures_needs_no_right_on_a_table) {
  if (is_stand_in()) GTEST_SKIP() << "the stand-in knows no ownership chains";
  grant(BoxKind::outbox, Part::procedures);
  grant(BoxKind::inbox, Part::procedures);
  Database database(address(), {}, environment());
  const auto call = [&](const std::string& sql) {
    std::string value;
    database.in_transaction([&](Session& session) {
      session.execute(in_schema("exec {schema}" + sql), {},
                      [&](const Row& row) { value = row.text(0); });
    });
    return value;
  };
  const std::string owner = "'00000000-0000-4000-8000-00000000000a'";
  call("outbox_enqueue N't', 0x01, @partition_key = N'k'");
  call("outbox_enqueue N't', 0x01, @partition_key = N'k'");
  const auto claim = [&] { return call("outbox_claim " + owner + ", 60, 10"); };
  EXPECT_EQ(call("outbox_ack " + owner + ", N'[" + claim() + "]'"), "1");
  EXPECT_EQ(call("outbox_fail " + owner + ", N'[" + claim() + "]', N'error'"), "1")
      << "the trigger needs no right either";
  EXPECT_EQ(call("inbox_accept N's', N'e', N't', 0x01"), "accepted");
  for (const char* sql : {"select * from {schema}outbox_message", "delete from {schema}outbox_work",
                          "select * from {schema}outbox"}) {
    expect_forbidden(database, sql);
  }
}

TEST_P(SqlserverRole, a_role_that_may_only_enqueue_does_that_and_nothing_else) {
  if (is_stand_in()) GTEST_SKIP() << "the stand-in knows no ownership chains";
  grant_enqueue();
  Database database(address(), {}, environment());
  database.in_transaction([&](Session& session) {
    session.execute(in_schema("exec {schema}outbox_enqueue N't', 0x01, @partition_key = N'k'"));
  });
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  const std::string owner = "'00000000-0000-4000-8000-00000000000a'";
  for (const std::string& sql :
       {std::string{"select * from {schema}outbox_message"},
        std::string{"select * from {schema}outbox"},
        std::string{"insert into {schema}outbox_message (id, source) values (N'a', N'-')"},
        std::string{"delete from {schema}outbox_work"},
        "exec {schema}outbox_claim " + owner + ", 60, 10",
        "exec {schema}outbox_ack " + owner + ", N'[1]'", std::string{"exec {schema}outbox_reap"},
        std::string{"exec {schema}inbox_accept N's', N'e', N't', 0x01"}}) {
    expect_forbidden(database, sql);
  }
}

TEST_P(SqlserverRole, IBX_126_the_granted_rights_are_enough_for_an_inbox) {
  grant(BoxKind::inbox, Part::whole);
  Database database(address(), {}, environment());
  Inbox inbox(database, without_deployment());
  EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::accepted);
  EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::duplicate_open);
  EXPECT_EQ(inbox.ack(worker_a, inbox.claim(worker_a, 30s, 10)), 1u);
  EXPECT_TRUE(inbox.already_processed(a_key()));
}

TEST_P(SqlserverRole, OBX_104_the_granted_rights_do_not_reach_other_tables) {
  grant(BoxKind::outbox, Part::whole);
  Database database(address(), {}, environment());
  for (const char* sql :
       {"delete from {schema}twinbox_schema", "select * from {schema}inbox_message"}) {
    expect_forbidden(database, sql);
  }
}

TWINBOX_ON_BACKENDS(SqlserverRole, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
