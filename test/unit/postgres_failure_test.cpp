// Errors, lost connections and what becomes of a transaction then.
#include <thread>

#include "postgres_driver_test.hpp"
#include "twinbox/session.hpp"

namespace twinbox {
namespace {

using namespace postgres_test;

class PostgresTables : public PostgresDriver {
 protected:
  void SetUp() override {
    PostgresDriver::SetUp();
    if (address_.empty()) return;
    connection_ = connect();
    connection_->begin(Access::write, Scope::transaction);
    connection_->execute("drop schema if exists driver_test cascade");
    connection_->execute("create schema driver_test");
    connection_->execute(
        "create table driver_test.t (id int primary key, v text, "
        "unique (v) deferrable initially deferred)");
    connection_->commit();
  }
  void TearDown() override {
    if (address_.empty()) return;
    auto connection = connect();
    connection->begin(Access::write, Scope::statement);
    connection->execute("drop schema if exists driver_test cascade");
  }
  std::string count(Connection& connection) {
    connection.begin(Access::read, Scope::statement);
    return text_of(connection, "select count(*) from driver_test.t");
  }

  std::unique_ptr<Connection> connection_;
};

TEST_F(PostgresTables, steps_of_one_statement_are_one_transaction) {
  const auto both = own({"insert into driver_test.t values (@a::int, @v::text) returning id",
                         "insert into driver_test.t values (@b::int, null)",
                         "update driver_test.t set v = v where id in (@a::int, @b::int)"});
  for (const bool pooled : {false, true}) {
    const auto connection = pooled ? behind_pooler() : connect();
    connection->begin(Access::write, Scope::statement);
    std::vector<std::int64_t> ids;
    EXPECT_EQ(run(*connection, both, {{"a", 1}, {"b", 2}, {"v", "x"}},
                  [&](const Row& row) { ids.push_back(row.integer(0)); }),
              2u);
    connection->commit();
    EXPECT_EQ(ids, std::vector<std::int64_t>{1});
    EXPECT_EQ(count(*connection), "2");

    connection->begin(Access::write, Scope::statement);
    const auto error = error_of([&] { run(*connection, both, {{"a", 3}, {"b", 1}, {"v", "y"}}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Kind::invalid_request);
    connection->rollback();
    EXPECT_TRUE(connection->usable());
    EXPECT_EQ(count(*connection), "2");
    connection->begin(Access::write, Scope::statement);
    connection->execute("delete from driver_test.t");
  }
}

TEST_F(PostgresTables, a_constraint_that_speaks_up_at_the_end_is_heard) {
  const auto insert =
      own({"insert into driver_test.t select n, 'same' from generate_series(1, 2) n"});
  for (const bool pooled : {false, true}) {
    const auto connection = pooled ? behind_pooler() : connect();
    connection->begin(Access::write, Scope::statement);
    const auto alone = error_of([&] { run(*connection, insert); });
    ASSERT_TRUE(alone);
    EXPECT_EQ(alone->native_code(), "23505");
    connection->rollback();
    connection->begin(Access::write, Scope::transaction);
    EXPECT_EQ(run(*connection, insert), 2u);
    const auto at_commit = error_of([&] { connection->commit(); });
    ASSERT_TRUE(at_commit);
    EXPECT_EQ(at_commit->kind(), Kind::invalid_request);
    connection->rollback();
    EXPECT_EQ(count(*connection), "0");
  }
}

TEST_F(PostgresTables, errors_name_statement_and_place_but_no_values) {
  connection_->begin(Access::write, Scope::transaction);
  connection_->execute("insert into driver_test.t values (4711, 'a')");
  const auto insert = own({"insert into driver_test.t values (@id::int, 'b')"});
  const auto twice = error_of([&] { run(*connection_, insert, {{"id", 4711}}); });
  ASSERT_TRUE(twice);
  const std::string_view message = twice->what();
  EXPECT_TRUE(message.starts_with("own: duplicate key value")) << message;
  EXPECT_NE(message.find("(postgresql://"), std::string_view::npos) << message;
  EXPECT_EQ(message.find("4711"), std::string_view::npos) << message;
  const auto after = error_of([&] { run(*connection_, insert, {{"id", 5}}); });
  ASSERT_TRUE(after);
  EXPECT_EQ(after->native_code(), "25P02");
  EXPECT_NE(std::string_view{after->what()}.find("roll it back"), std::string_view::npos);
  EXPECT_FALSE(connection_->in_transaction());
  const auto nothing = error_of([&] { connection_->commit(); });
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->kind(), Kind::invalid_request);
  connection_->rollback();
  EXPECT_EQ(count(*connection_), "0");

  connection_->begin(Access::write, Scope::statement);
  const auto value = error_of([&] { run(*connection_, insert, {{"id", "geheim"}}); });
  ASSERT_TRUE(value);
  EXPECT_EQ(value->native_code(), "22P02");
  EXPECT_EQ(std::string_view{value->what()}.find("geheim"), std::string_view::npos)
      << value->what();
  const auto nul = error_of([&] {
    run(*connection_, insert, {{"id", std::string_view{"1\0", 2}}});
  });
  ASSERT_TRUE(nul);
  EXPECT_EQ(nul->kind(), Kind::invalid_request);
}

TEST_F(PostgresTables, kinds_follow_the_codes) {
  const auto kind = [&](std::string_view sql) {
    connection_->begin(Access::write, Scope::transaction);
    const auto error = error_of([&] { run(*connection_, own({sql})); });
    connection_->rollback();
    const Kind found = error ? error->kind() : Kind::other;
    EXPECT_EQ(connection_->usable(), found != Kind::read_only);
    return found;
  };
  EXPECT_EQ(kind("select 1 from driver_test.missing"), Kind::missing_schema);
  EXPECT_EQ(kind("select driver_test.missing()"), Kind::missing_schema);
  EXPECT_EQ(kind("selec"), Kind::invalid_request);
  EXPECT_EQ(kind("select 1 / 0"), Kind::invalid_request);
  const auto raised = [](std::string_view code) {
    return "do $$ begin raise exception 'x' using errcode = '" + std::string{code} + "'; end $$";
  };
  EXPECT_EQ(kind(raised("40001")), Kind::contention);
  EXPECT_EQ(kind(raised("55P03")), Kind::contention);
  EXPECT_EQ(kind(raised("53100")), Kind::out_of_space);
  EXPECT_EQ(kind(raised("42501")), Kind::permission);
  EXPECT_EQ(kind(raised("XX001")), Kind::corrupt);
  EXPECT_EQ(kind(raised("XX000")), Kind::other);
  EXPECT_EQ(kind(raised("25006")), Kind::read_only) << "a new connection may reach another server";
}

TEST_F(PostgresTables, a_deadlock_is_contention_for_one_of_the_two) {
  connection_->begin(Access::write, Scope::statement);
  connection_->execute("insert into driver_test.t values (1, 'a'), (2, 'b')");
  const auto lock = own({"update driver_test.t set v = v where id = @id::int"});
  auto other = connect();
  connection_->begin(Access::write, Scope::transaction);
  other->begin(Access::write, Scope::transaction);
  run(*connection_, lock, {{"id", 1}});
  run(*other, lock, {{"id", 2}});
  std::optional<DatabaseError> first;
  std::jthread thread{[&] {
    first = error_of([&] { run(*connection_, lock, {{"id", 2}}); });
    connection_->rollback();
  }};
  const auto second = error_of([&] { run(*other, lock, {{"id", 1}}); });
  other->rollback();
  thread.join();
  ASSERT_NE(first.has_value(), second.has_value());
  EXPECT_EQ((first ? first : second)->kind(), Kind::contention);
  EXPECT_TRUE((first ? first : second)->retryable());
}

TEST_F(PostgresDriver, a_timeout_and_an_interrupt_are_cancelled) {
  auto connection = connect();
  connection->begin(Access::write, Scope::caller);
  connection->execute("set local statement_timeout = '10ms'");
  const auto timeout = error_of([&] { connection->execute("select pg_sleep(600)"); });
  ASSERT_TRUE(timeout);
  EXPECT_EQ(timeout->kind(), Kind::cancelled);
  connection->rollback();

  connection->begin(Access::read, Scope::statement);
  std::optional<DatabaseError> interrupted;
  std::jthread thread{
      [&] { interrupted = error_of([&] { connection->execute("select pg_sleep(600)"); }); }};
  connection->interrupt();
  thread.join();
  ASSERT_TRUE(interrupted);
  EXPECT_EQ(interrupted->kind(), Kind::cancelled);
}

TEST_F(PostgresTables, a_server_that_ended_before_the_call_is_found_at_begin) {
  connection_->begin(Access::read, Scope::statement);
  terminate(pid_of(*connection_));
  const auto lost = error_of([&] {
    connection_->begin(Access::write, Scope::statement);
    connection_->execute("insert into driver_test.t values (1, 'a')");
  });
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind(), Kind::connection_lost) << lost->what();
  EXPECT_TRUE(lost->retryable());
  EXPECT_FALSE(connection_->usable());
  connection_->rollback();
}

TEST_F(PostgresTables, a_server_that_ends_in_a_statement_has_rolled_it_back) {
  for (const auto scope : {Scope::statement, Scope::transaction}) {
    auto connection = connect();
    connection->begin(Access::write, scope);
    const auto lost = error_of([&] {
      run(*connection, own({"insert into driver_test.t values (1, 'a')",
                            "select pg_terminate_backend(pg_backend_pid())"}));
    });
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->kind(), Kind::connection_lost) << lost->what();
    EXPECT_FALSE(connection->usable());
    EXPECT_FALSE(connection->in_transaction());
    connection->rollback();
  }
  EXPECT_EQ(count(*connection_), "0");
}

TEST_F(PostgresTables, a_commit_that_was_never_sent_has_not_happened) {
  connection_->begin(Access::write, Scope::transaction);
  connection_->execute("insert into driver_test.t values (1, 'a')");
  terminate(pid_of(*connection_));
  const auto lost = error_of([&] { connection_->commit(); });
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind(), Kind::connection_lost) << lost->what();
  EXPECT_FALSE(connection_->usable());
}

TEST_F(PostgresTables, a_commit_whose_answer_is_lost_is_in_doubt) {
  connection_->begin(Access::write, Scope::transaction);
  connection_->execute(
      "create function driver_test.leave() returns trigger language plpgsql as $$ begin "
      "perform pg_terminate_backend(pg_backend_pid()); return null; end $$");
  connection_->execute(
      "create constraint trigger leave after insert on driver_test.t deferrable initially deferred "
      "for each row execute function driver_test.leave()");
  connection_->commit();
  for (const auto scope : {Scope::statement, Scope::transaction, Scope::caller}) {
    auto connection = connect();
    connection->begin(Access::write, scope);
    const auto lost = error_of([&] {
      connection->execute("insert into driver_test.t values (1, 'a')");
      connection->commit();
    });
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->kind(), Kind::commit_in_doubt) << lost->what();
    EXPECT_FALSE(lost->retryable());
    EXPECT_FALSE(connection->usable());
    connection->rollback();
  }
}

TEST_F(PostgresTables, prepared_statements_are_made_again_when_the_server_has_lost_them) {
  const auto statement = own({"select * from driver_test.t where id = @id::int"});
  const auto once = [&] {
    connection_->begin(Access::read, Scope::statement);
    return run(*connection_, statement, {{"id", 1}});
  };
  once();
  connection_->begin(Access::read, Scope::statement);
  connection_->execute("deallocate all");
  auto lost = error_of(once);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind(), Kind::contention);
  EXPECT_EQ(once(), 0u);
  connection_->begin(Access::write, Scope::statement);
  connection_->execute("alter table driver_test.t add column more int");
  lost = error_of(once);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->native_code(), "0A000");
  EXPECT_TRUE(lost->retryable());
  EXPECT_EQ(once(), 0u);
}

TEST_F(PostgresTables, a_statement_that_could_not_be_prepared_is_prepared_later) {
  const auto statement = own({"select id from driver_test.later where id = @id::int"});
  const auto once = [&] {
    connection_->begin(Access::read, Scope::statement);
    return run(*connection_, statement, {{"id", 1}});
  };
  EXPECT_EQ(error_of(once)->kind(), Kind::missing_schema);
  connection_->begin(Access::write, Scope::statement);
  connection_->execute("create table driver_test.later (id int)");
  EXPECT_EQ(once(), 0u);
  EXPECT_EQ(once(), 0u);
}

TEST_F(PostgresTables, a_parameter_that_changes_from_null_to_column_still_fits) {
  const auto statement = own({"select count(*) from unnest(@n::int[])"});
  const std::vector<Value> numbers{std::int64_t{1}, std::int64_t{2}};
  std::int64_t counted = -1;
  for (const bool null : {true, false, true, false}) {
    connection_->begin(Access::read, Scope::statement);
    run(*connection_, statement, {null ? Arg{"n", Value{}} : Arg{"n", ValueType::integer, numbers}},
        [&](const Row& row) { counted = row.integer(0); });
    EXPECT_EQ(counted, null ? 0 : 2);
  }
}

TEST_F(PostgresTables, much_data_both_ways_does_not_block) {
  const std::string payload(24 << 20, 'x');
  const auto echo = own({"select @p::bytea", "select @p::bytea"});
  connection_->begin(Access::write, Scope::statement);
  std::size_t bytes = 0;
  run(*connection_, echo, {{"p", Bytes{payload}}},
      [&](const Row& row) { bytes += row.bytes(0).size(); });
  EXPECT_EQ(bytes, 2 * payload.size());
}

TEST_F(PostgresTables, a_sink_that_throws_leaves_the_connection_usable) {
  connection_->begin(Access::write, Scope::transaction);
  EXPECT_THROW(
      connection_->execute("select 1", {}, [](const Row&) { throw std::runtime_error("enough"); }),
      std::runtime_error);
  EXPECT_EQ(text_of(*connection_, "select 2"), "2");
  connection_->rollback();
}

}  // namespace
}  // namespace twinbox
