#include "postgres_driver_test.hpp"

#include <limits>

#include "twinbox/pqxx.hpp"
#include "twinbox/session.hpp"

// libpqxx 6.4 itself drops a result when it finds the connection broken.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:pqxx::connection_base::exec_params";
}

namespace twinbox {
namespace {

using namespace postgres_test;

constexpr Uuid some_uuid{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255}};

Instant at(std::int64_t micros) { return Instant{std::chrono::microseconds{micros}}; }

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

  static const auto columns = [] {
    auto both =
        own({"select * from unnest(@i::bigint[], @r::float8[], @t::text[], @y::bytea[], "
             "@w::timestamptz[], @u::uuid[], @b::boolean[])"});
    both.one = own({"select @i::bigint, @r::float8, @t::text, @y::bytea, @w::timestamptz, "
                    "@u::uuid, @b::boolean"})
                   .steps;
    return both;
  }();
  // All three rows at once, and each alone.
  const auto expect_rows = [&](std::size_t first, std::size_t count) {
    const auto some = [&](const std::vector<Value>& values) {
      return std::span{values}.subspan(first, count);
    };
    std::size_t n = first;
    EXPECT_EQ(run(session, columns,
                  {{"i", ValueType::integer, some(integers)},
                   {"r", ValueType::real, some(reals)},
                   {"t", ValueType::text, some(texts)},
                   {"y", ValueType::bytes, some(blobs)},
                   {"w", ValueType::instant, some(instants)},
                   {"u", ValueType::uuid, some(uuids)},
                   {"b", ValueType::boolean, some(flags)}},
                  [&](const Row& row) {
                    for (int column = 0; column < 7; ++column)
                      EXPECT_EQ(row.is_null(column), n == 1) << column;
                    if (n != 1) {
                      EXPECT_EQ(row.integer(0), std::get<std::int64_t>(integers[n]));
                      EXPECT_EQ(row.real(1), std::get<double>(reals[n]));
                      EXPECT_EQ(row.text(2), std::get<std::string_view>(texts[n]));
                      EXPECT_EQ(row.bytes(3), std::get<Bytes>(blobs[n]).data);
                      EXPECT_EQ(row.instant(4), std::get<Instant>(instants[n]));
                      EXPECT_EQ(row.uuid(5), std::get<Uuid>(uuids[n]));
                      EXPECT_EQ(row.boolean(6), std::get<bool>(flags[n]));
                    }
                    ++n;
                  }),
              count);
    EXPECT_EQ(n, first + count);
  };
  expect_rows(0, 3);
  for (const std::size_t row : {0U, 1U, 2U}) expect_rows(row, 1);

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

TEST_F(PostgresDriver, statements_get_planner_settings_and_the_callers_do_not) {
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

TEST_F(PostgresDriver, the_form_for_one_is_used_for_one_element_of_each_column) {
  auto statement = own({"select 'steps' from unnest(@id::bigint[], @name::text[])"});
  statement.one = own({"select 'one ' || @id::bigint || @name::text"}).steps;
  const std::vector<Value> ids{std::int64_t{7}, std::int64_t{8}};
  const std::vector<Value> names{std::string_view{"a"}, std::string_view{"b"}};
  const auto forms = [&](Session& session) {
    std::string all;
    for (const std::size_t count : {0U, 1U, 2U}) {
      run(session, statement,
          {{"id", ValueType::integer, std::span{ids}.first(count)},
           {"name", ValueType::text, std::span{names}.first(count)}},
          [&](const Row& row) { all.append(row.text(0)).append(";"); });
    }
    return all;
  };
  auto connection = connect();
  for (const auto scope : {Scope::statement, Scope::transaction, Scope::caller}) {
    connection->begin(Access::write, scope);
    EXPECT_EQ(forms(*connection), "one 7a;steps;steps;");
    connection->commit();
  }
  const Native native{address_};
  LibpqSession session{native.handle.get()};
  EXPECT_EQ(forms(session), "one 7a;steps;steps;");
}

TEST_F(PostgresDriver, a_column_of_nulls_alone_is_a_null_for_statements_of_ours_only) {
  const std::string sql =
      "select @name::text[] is null, string_agg(coalesce(name, '-'), ',') "
      "from unnest(@id::bigint[], @name::text[]) a(id, name)";
  const std::vector<Value> ids{std::int64_t{7}, std::int64_t{8}};
  const std::vector<Value> none(2);
  const std::vector<Value> some{Value{}, std::string_view{"b"}};
  auto connection = connect();
  const auto seen = [&](std::span<const Value> names, bool ours) {
    const std::initializer_list<Arg> args{{"id", ValueType::integer, ids},
                                          {"name", ValueType::text, names}};
    std::string all;
    const auto note = [&](const Row& row) {
      all.append(row.boolean(0) ? "null " : "array ").append(row.text(1));
    };
    connection->begin(Access::read, Scope::statement);
    if (ours) {
      run(*connection, own({sql}), args, note);
    } else {
      connection->execute(sql, args, note);
    }
    connection->commit();
    return all;
  };
  EXPECT_EQ(seen(none, true), "null -,-");
  EXPECT_EQ(seen(some, true), "array -,b");
  EXPECT_EQ(seen(none, false), "array -,-");
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
