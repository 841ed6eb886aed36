#include "driver/postgres/postgres_driver.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "sql/render.hpp"
#include "twinbox/native_sessions.hpp"
#include "twinbox/pqxx_session.hpp"

// libpqxx 6.4 itself drops a result when it finds the connection broken.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:pqxx::connection_base::exec_params";
}

namespace twinbox {
namespace {

using Kind = DatabaseError::Kind;

constexpr Uuid some_uuid{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255}};

Instant at(std::int64_t micros) { return Instant{std::chrono::microseconds{micros}}; }

Step step(std::string_view sql) {
  auto [text, params] = rewrite_parameters(sql, Dialect::postgres);
  return {std::move(text), std::move(params)};
}

/// A statement as the .sql files would give it.
Statement own(std::vector<std::string_view> sql, std::string_view call = {}) {
  static std::atomic<std::uint32_t> numbers{1'000'000};
  Statement statement{"own", numbers++, {}, {}};
  for (const auto text : sql) statement.steps.push_back(step(text));
  if (!call.empty()) statement.call = step(call);
  return statement;
}

std::size_t run(Session& session, const Statement& statement, std::initializer_list<Arg> args = {},
                RowSink rows = {}) {
  return session.execute(statement, {args.begin(), args.size()}, rows);
}

std::string text_of(Session& session, std::string_view sql, std::initializer_list<Arg> args = {}) {
  std::string result = "no row";
  session.execute(sql, args, [&](const Row& row) { result = row.text(0); });
  return result;
}

template <class F>
std::optional<DatabaseError> error_of(F&& act) {
  try {
    act();
  } catch (const DatabaseError& error) {
    return error;
  }
  return {};
}

class PostgresDriver : public testing::Test {
 protected:
  void SetUp() override {
    const char* address = std::getenv("TWINBOX_TEST_POSTGRES");
    if (address == nullptr)
      GTEST_SKIP() << "TWINBOX_TEST_POSTGRES is not set: no server to test with";
    address_ = address;
  }

  [[nodiscard]] std::string with(std::string_view setting) const {
    if (address_.find("://") == std::string::npos) return address_ + " " + std::string{setting};
    return address_ + (address_.find('?') == std::string::npos ? "?" : "&") + std::string{setting};
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(std::string_view setting = {}) const {
    return make_postgres_driver(setting.empty() ? address_ : with(setting), {}, {})
        ->connect(Access::write);
  }
  [[nodiscard]] std::unique_ptr<Connection> behind_pooler() const {
    return connect("twinbox_pooler=transaction");
  }

  /// A connection of the caller's own, with an open transaction.
  struct Native {
    explicit Native(const std::string& address) : handle(PQconnectdb(address.c_str()), &PQfinish) {
      query("begin");
    }
    void query(const char* sql) const { PQclear(PQexec(handle.get(), sql)); }
    std::unique_ptr<PGconn, decltype(&PQfinish)> handle;
  };

  void terminate(const std::string& pid) const {
    auto other = connect();
    other->begin(Access::write, Scope::statement);
    ASSERT_EQ(text_of(*other, "select pg_terminate_backend(@pid::int, 10000)", {{"pid", pid}}),
              "t");
  }

  std::string address_;
};

std::string pid_of(Session& session) { return text_of(session, "select pg_backend_pid()"); }

const std::vector<Value> integers{std::int64_t{1}, Value{},
                                  std::numeric_limits<std::int64_t>::max()};
const std::vector<Value> reals{0.1, Value{}, -1e300};
const std::vector<Value> texts{std::string_view{"ä\"\\,{}"}, Value{}, std::string_view{""}};
const std::vector<Value> blobs{Bytes{{"\0\377\\x", 4}}, Value{}, Bytes{""}};
const std::vector<Value> instants{at(1), Value{}, Instant::max()};
const std::vector<Value> uuids{some_uuid, Value{}, Uuid{}};
const std::vector<Value> flags{true, Value{}, false};

/// Sends every type, alone and as a column, through one of our own statements and back.
void expect_round_trip(Session& session) {
  static const auto scalars =
      own({"select @b::boolean, @i::bigint, @s::int, @r::float8, @t::text, @y::bytea, "
           "@w::timestamptz, @u::uuid, @n::bigint, @m::bytea, @v::timestamptz"});
  const std::string big(1 << 20, '\xfe');
  for (const bool again : {false, true}) {
    std::size_t rows = 0;
    EXPECT_EQ(run(session, scalars,
                  {{"b", true},
                   {"i", std::numeric_limits<std::int64_t>::min()},
                   {"s", -7},
                   {"r", 0.1},
                   {"t", "ä'\\"},
                   {"y", Bytes{big}},
                   {"w", at(1'700'000'000'123'456)},
                   {"u", some_uuid},
                   {"n", Value{}},
                   {"m", again ? Value{Bytes{""}} : Value{}},
                   {"v", Instant::min()}},
                  [&](const Row& row) {
                    ++rows;
                    EXPECT_TRUE(row.boolean(0));
                    EXPECT_EQ(row.integer(1), std::numeric_limits<std::int64_t>::min());
                    EXPECT_EQ(row.integer(2), -7);
                    EXPECT_EQ(row.real(3), 0.1);
                    EXPECT_EQ(row.text(4), "ä'\\");
                    EXPECT_EQ(row.bytes(5), big);
                    EXPECT_EQ(row.instant(6), at(1'700'000'000'123'456));
                    EXPECT_EQ(row.uuid(7), some_uuid);
                    EXPECT_TRUE(row.is_null(8));
                    EXPECT_EQ(row.is_null(9), !again);
                    EXPECT_EQ(row.bytes(9), "");
                    EXPECT_EQ(row.instant(10), Instant::min());
                    EXPECT_EQ(row.text(2), "-7");
                    EXPECT_EQ(row.text(7), some_uuid.str());
                    EXPECT_THROW(static_cast<void>(row.integer(11)), std::out_of_range);
                  }),
              1u);
    EXPECT_EQ(rows, 1u);
  }

  static const auto columns =
      own({"select * from unnest(@i::bigint[], @r::float8[], @t::text[], @y::bytea[], "
           "@w::timestamptz[], @u::uuid[], @b::boolean[])"});
  std::size_t row_number = 0;
  EXPECT_EQ(run(session, columns,
                {{"i", ValueType::integer, integers},
                 {"r", ValueType::real, reals},
                 {"t", ValueType::text, texts},
                 {"y", ValueType::bytes, blobs},
                 {"w", ValueType::instant, instants},
                 {"u", ValueType::uuid, uuids},
                 {"b", ValueType::boolean, flags}},
                [&](const Row& row) {
                  const auto n = row_number++;
                  for (int column = 0; column < 7; ++column)
                    EXPECT_EQ(row.is_null(column), n == 1) << column;
                  if (n == 1) return;
                  EXPECT_EQ(row.integer(0), std::get<std::int64_t>(integers[n]));
                  EXPECT_EQ(row.real(1), std::get<double>(reals[n]));
                  EXPECT_EQ(row.text(2), std::get<std::string_view>(texts[n]));
                  EXPECT_EQ(row.bytes(3), std::get<Bytes>(blobs[n]).data);
                  EXPECT_EQ(row.instant(4), std::get<Instant>(instants[n]));
                  EXPECT_EQ(row.uuid(5), std::get<Uuid>(uuids[n]));
                  EXPECT_EQ(row.boolean(6), std::get<bool>(flags[n]));
                }),
            3u);

  static const auto narrow = own({"select sum(n)::bigint, count(*) from unnest(@n::int[]) n"});
  for (const bool empty : {false, true}) {
    const std::vector<Value> numbers{std::int64_t{40}, std::int64_t{2}};
    run(session, narrow, {{"n", ValueType::integer, std::span{numbers}.first(empty ? 0 : 2)}},
        [&](const Row& row) {
          EXPECT_EQ(row.integer(0), empty ? 0 : 42);
          EXPECT_EQ(row.integer(1), empty ? 0 : 2);
        });
  }
  run(session, narrow, {{"n", Value{}}}, [&](const Row& row) { EXPECT_EQ(row.integer(1), 0); });
}

/// The same through SQL of the user's own.
void expect_text_round_trip(Session& session) {
  std::size_t rows = 0;
  EXPECT_EQ(session.execute("select @i + 1, @r::numeric, @t, @y, @w::timestamptz, @u::uuid, "
                            "@b::bool, '@i', 12.50, @n::text",
                            {{"i", 41},
                             {"r", 0.5},
                             {"t", "ä"},
                             {"y", Bytes{{"\0\377", 2}}},
                             {"w", at(1)},
                             {"u", some_uuid},
                             {"b", false},
                             {"n", Value{}}},
                            [&](const Row& row) {
                              ++rows;
                              EXPECT_EQ(row.integer(0), 42);
                              EXPECT_EQ(row.real(1), 0.5);
                              EXPECT_EQ(row.text(2), "ä");
                              EXPECT_EQ(row.bytes(3), (std::string_view{"\0\377", 2}));
                              EXPECT_EQ(row.instant(4), at(1));
                              EXPECT_EQ(row.uuid(5), some_uuid);
                              EXPECT_FALSE(row.boolean(6));
                              EXPECT_EQ(row.text(7), "@i");
                              EXPECT_EQ(row.text(8), "12.50");
                              EXPECT_TRUE(row.is_null(9));
                              EXPECT_THROW(static_cast<void>(row.instant(2)), DatabaseError);
                            }),
            1u);
  EXPECT_EQ(rows, 1u);
}

TEST_F(PostgresDriver, every_type_comes_back_by_named_statements) {
  auto connection = connect();
  for (const auto scope : {Scope::statement, Scope::transaction, Scope::caller}) {
    connection->begin(Access::write, scope);
    EXPECT_TRUE(connection->in_transaction());
    expect_round_trip(*connection);
    expect_text_round_trip(*connection);
    connection->commit();
    EXPECT_FALSE(connection->in_transaction());
  }
}

TEST_F(PostgresDriver, every_type_comes_back_behind_a_pooler) {
  auto connection = behind_pooler();
  for (const auto scope : {Scope::statement, Scope::transaction, Scope::caller}) {
    connection->begin(Access::write, scope);
    expect_round_trip(*connection);
    expect_text_round_trip(*connection);
    connection->commit();
  }
  connection->begin(Access::read, Scope::statement);
  EXPECT_EQ(text_of(*connection, "select count(*) from pg_prepared_statements"), "0");
  EXPECT_EQ(text_of(*connection, "show enable_seqscan"), "on");
}

TEST_F(PostgresDriver, every_type_comes_back_in_a_callers_libpq_transaction) {
  const Native native{address_};
  LibpqSession session{native.handle.get()};
  expect_round_trip(session);
  expect_text_round_trip(session);
  EXPECT_TRUE(session.in_transaction());
}

TEST_F(PostgresDriver, every_type_comes_back_in_a_callers_pqxx_transaction) {
  pqxx::connection native{address_};
  pqxx::work transaction{native};
  transaction.exec("create temp table mine (id int primary key)");
  PqxxSession session{transaction};
  expect_round_trip(session);
  expect_text_round_trip(session);
  EXPECT_EQ(session.execute("insert into mine values (@a), (@b)", {{"a", 1}, {"b", 2}}), 2u);
  transaction.exec("set local bytea_output = escape");
  transaction.exec("set local timezone = 'Asia/Kolkata'");
  expect_round_trip(session);
  transaction.exec("set local datestyle = 'german'");
  const auto style = error_of([&] {
    session.execute("select now()", {}, [](const Row& row) { static_cast<void>(row.instant(0)); });
  });
  ASSERT_TRUE(style);
  EXPECT_NE(std::string_view{style->what()}.find("DateStyle"), std::string_view::npos);
  EXPECT_EQ(text_of(session, "select count(*) from mine"), "2");

  const auto twice = error_of([&] { session.execute("insert into mine values (@a)", {{"a", 1}}); });
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->kind(), Kind::invalid_request);
  EXPECT_EQ(twice->native_code(), "23505");
  EXPECT_EQ(std::string_view{twice->what()},
            "execute: duplicate key value violates unique constraint \"mine_pkey\"");
  EXPECT_FALSE(session.in_transaction());
}

TEST_F(PostgresDriver, a_pqxx_transaction_whose_server_ends_is_connection_lost) {
  pqxx::connection native{address_};
  pqxx::work transaction{native};
  PqxxSession session{transaction};
  terminate(pid_of(session));
  const auto lost = error_of([&] { session.execute("select 1"); });
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind(), Kind::connection_lost);
}

TEST_F(PostgresDriver, statements_are_steered_and_the_callers_are_not) {
  auto connection = connect();
  for (const auto* setting : {"enable_seqscan", "enable_bitmapscan", "jit"}) {
    const auto show = "show " + std::string{setting};
    connection->begin(Access::read, Scope::statement);
    EXPECT_EQ(text_of(*connection, show), "off") << setting;
    connection->begin(Access::write, Scope::transaction);
    EXPECT_EQ(text_of(*connection, show), "off") << setting;
    connection->commit();
    connection->begin(Access::write, Scope::caller);
    EXPECT_EQ(text_of(*connection, show), "on") << setting;
    connection->commit();
    connection->begin(Access::read, Scope::statement);
    EXPECT_EQ(text_of(*connection, show), "off") << setting;
  }
  connection->begin(Access::write, Scope::caller);
  EXPECT_EQ(text_of(*connection, "show plan_cache_mode"), "auto");
  EXPECT_EQ(text_of(*connection, "show application_name"), "twinbox");
  connection->rollback();
}

TEST_F(PostgresDriver, a_server_with_another_default_isolation_still_gives_fresh_snapshots) {
  for (const bool pooled : {false, true}) {
    ::setenv("PGOPTIONS", "-c default_transaction_isolation=serializable", 1);
    const auto connection = pooled ? behind_pooler() : connect();
    ::unsetenv("PGOPTIONS");
    for (const auto scope : {Scope::statement, Scope::transaction, Scope::caller}) {
      connection->begin(Access::write, scope);
      EXPECT_EQ(text_of(*connection, "show transaction_isolation"), "read committed");
      connection->commit();
    }
  }
}

TEST_F(PostgresDriver, the_function_form_is_used_where_the_planner_is_not_ours) {
  const auto statement = own({"select 'steps'"}, "select 'call'");
  const auto form = [&](Session& session) {
    std::string text;
    EXPECT_EQ(run(session, statement, {}, [&](const Row& row) { text = row.text(0); }), 1u);
    return text;
  };
  auto connection = connect();
  for (const auto scope : {Scope::statement, Scope::transaction, Scope::caller}) {
    connection->begin(Access::write, scope);
    EXPECT_EQ(form(*connection), scope == Scope::caller ? "call" : "steps");
    connection->commit();
  }
  auto pooled = behind_pooler();
  pooled->begin(Access::write, Scope::statement);
  EXPECT_EQ(form(*pooled), "call");
  const Native native{address_};
  LibpqSession session{native.handle.get()};
  EXPECT_EQ(form(session), "call");
}

/// Tables of one test, in a schema of their own.
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
    EXPECT_TRUE(connection_->usable());
    return error ? error->kind() : Kind::other;
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
  EXPECT_EQ(kind(raised("25006")), Kind::read_only);
  EXPECT_EQ(kind(raised("42501")), Kind::permission);
  EXPECT_EQ(kind(raised("XX001")), Kind::corrupt);
  EXPECT_EQ(kind(raised("XX000")), Kind::other);
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

TEST_F(PostgresDriver, a_statement_that_ends_the_transaction_or_copies_is_refused) {
  auto connection = connect();
  connection->begin(Access::write, Scope::caller);
  EXPECT_THROW(connection->execute("rollback"), UsageError);
  connection->rollback();
  connection->begin(Access::write, Scope::caller);
  const auto copy = error_of([&] { connection->execute("copy (select 1) to stdout"); });
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->kind(), Kind::invalid_request) << copy->what();
  EXPECT_FALSE(connection->usable());
  connection->rollback();
}

TEST_F(PostgresDriver, a_missing_argument_is_named) {
  auto connection = connect();
  connection->begin(Access::read, Scope::statement);
  EXPECT_THROW(connection->execute("select @nobody::int"), std::invalid_argument);
  EXPECT_EQ(text_of(*connection, "select 1"), "1");
}

TEST_F(PostgresDriver, a_login_that_is_refused_is_told_from_a_server_that_is_not_there) {
  const auto missing =
      error_of([&] { static_cast<void>(connect("user=twinbox_nobody_of_this_name")); });
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->kind(), Kind::permission) << missing->what();
  const auto nobody = error_of([&] {
    static_cast<void>(make_postgres_driver("host=127.0.0.1 port=1 user=u password=geheim", {}, {})
                          ->connect(Access::read));
  });
  ASSERT_TRUE(nobody);
  EXPECT_EQ(nobody->kind(), Kind::connection_lost);
  EXPECT_EQ(std::string_view{nobody->what()}.find("geheim"), std::string_view::npos);
}

TEST_F(PostgresDriver, a_callers_connection_without_a_usable_transaction_is_refused) {
  const Native native{address_};
  LibpqSession session{native.handle.get()};
  const auto statement = own({"select 1"});
  native.query("select 1 / 0");
  EXPECT_THROW(run(session, statement), UsageError);
  native.query("rollback");
  EXPECT_FALSE(session.in_transaction());
  EXPECT_THROW(run(session, statement), UsageError);
  EXPECT_THROW(session.execute("select 1"), UsageError);
  native.query("begin");
  EXPECT_EQ(run(session, statement), 1u);
  PQsetnonblocking(native.handle.get(), 1);
  EXPECT_THROW(run(session, statement), UsageError);
  PQsetnonblocking(native.handle.get(), 0);
  PQenterPipelineMode(native.handle.get());
  EXPECT_THROW(run(session, statement), UsageError);
  PQexitPipelineMode(native.handle.get());
  const auto copy = error_of([&] { session.execute("copy (select 1) to stdout"); });
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->kind(), Kind::invalid_request);
  EXPECT_EQ(run(session, statement), 1u);
  EXPECT_EQ(text_of(session, "select count(*) from pg_prepared_statements"), "0");
  EXPECT_THROW(LibpqSession{nullptr}, UsageError);
}

}  // namespace
}  // namespace twinbox
