// Schema changes and prune take as long as the tables need, however short the answer limit is.
#include "support/inbox_test.hpp"
#include "support/postgres.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class PostgresAnswerTimeout : public InboxTest {
 protected:
  PostgresAnswerTimeout() : holder_(test_store().address()), watcher_(test_store().address()) {
    make_done();
    numbers_.push_back(detail().message.number);
    clock().advance(1h);
  }

  /// `body` meets locked tables, and waits until another call has passed the same limit.
  template <class F>
  auto outlast_the_limit(const std::string& mode, F body) {
    holder_.begin();
    holder_.run("lock table " + tables() + " in " + mode + " mode");
    Call call{std::move(body)};
    EXPECT_TRUE(waits_for(call, holder_, watcher_));
    try {
      hasty_.in_transaction([](Session& session) { session.execute("select pg_sleep(600)"); });
      ADD_FAILURE() << "an ordinary call has a limit";
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::connection_lost) << error.what();
    }
    holder_.rollback();
    return call.get();
  }
  std::string tables() {
    return watcher_.value(
        "select string_agg(oid::regclass::text, ', ') from pg_class where relkind = 'r' and "
        "relnamespace = '" +
        options().schema + "'::regnamespace");
  }

  PgClient holder_;
  PgClient watcher_;
  Database hasty_{
      test_store().address(),
      {.wait_timeout = 1h, .answer_timeout = 1500ms, .retry_timeout = 0ms, .retries = 0},
      environment()};
  Inbox hasty_inbox_{hasty_, options()};
  std::vector<std::int64_t> numbers_;
};

TEST_P(PostgresAnswerTimeout, does_not_hold_for_a_deploy) {
  Schema schema{hasty_, BoxKind::inbox, options()};
  EXPECT_TRUE(outlast_the_limit("access exclusive", [&] { return schema.deploy(); }).empty());
}

TEST_P(PostgresAnswerTimeout, does_not_hold_for_a_repair) {
  Schema schema{hasty_, BoxKind::inbox, options()};
  EXPECT_TRUE(outlast_the_limit("exclusive", [&] { return schema.repair(); }).empty());
}

TEST_P(PostgresAnswerTimeout, does_not_hold_while_a_prune_looks_for_what_is_old) {
  const auto prune = [&] { return hasty_inbox_.prune({.older_than = 0s}); };
  EXPECT_EQ(outlast_the_limit("access exclusive", prune), 1u);
}

TEST_P(PostgresAnswerTimeout, does_not_hold_while_a_prune_deletes) {
  const auto prune = [&] { return hasty_inbox_.prune({.older_than = 0s}); };
  EXPECT_EQ(outlast_the_limit("exclusive", prune), 1u);
}

TEST_P(PostgresAnswerTimeout, does_not_hold_for_an_operator_who_prunes_messages) {
  const auto prune = [&] { return Admin{hasty_inbox_}.prune(numbers_); };
  EXPECT_EQ(outlast_the_limit("exclusive", prune), 1u);
}

TEST_P(PostgresAnswerTimeout, does_not_hold_for_an_operator_who_prunes_by_a_filter) {
  const auto prune = [&] { return Admin{hasty_inbox_}.prune(Filter{}); };
  EXPECT_EQ(outlast_the_limit("exclusive", prune), 1u);
}

TWINBOX_ON_BACKENDS(PostgresAnswerTimeout, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
