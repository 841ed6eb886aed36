#include "sqlite_driver_test.hpp"

#include <limits>
#include <stdexcept>
#include <thread>

#include "twinbox/session.hpp"

namespace twinbox {
namespace {

using namespace sqlite_test;

TEST_F(SqliteDriver, has_one_writer_and_as_many_readers_as_the_pool) {
  const auto shape = driver()->shape(8);
  EXPECT_EQ(shape.writers, 1U);
  EXPECT_EQ(shape.readers, 8U);
  EXPECT_FALSE(shape.shared);
  EXPECT_EQ(driver()->describe(), "sqlite:" + file_.string());
}

TEST_F(SqliteDriver, in_memory_everything_shares_one_connection) {
  const auto memory = make_sqlite_driver(":memory:", options_, {});
  const auto shape = memory->shape(8);
  EXPECT_EQ(shape.writers, 1U);
  EXPECT_TRUE(shape.shared);
  const auto connection = memory->connect(Access::write);
  create(*connection, "create table thing(id integer)");
  for (const auto access : {Access::write, Access::write_relaxed}) {
    in_transaction(
        *connection, [&] { connection->execute("insert into thing values (1)"); }, access);
  }
  in_transaction(
      *connection, [&] { EXPECT_EQ(number_of(*connection, "select count(*) from thing"), 2); },
      Access::read);
}

TEST_F(SqliteDriver, refuses_a_file_name_that_can_be_none) {
  EXPECT_THROW(make_sqlite_driver("", options_, {}), std::invalid_argument);
  EXPECT_THROW(make_sqlite_driver(std::string{"a\0b", 3}, options_, {}), std::invalid_argument);
}

TEST_F(SqliteDriver, uses_write_ahead_logging_and_syncs_every_write_but_a_claim) {
  const auto connection = connect();
  for (const auto& [access, level] :
       {std::pair{Access::write, 2}, {Access::write_relaxed, 1}, {Access::write, 2}}) {
    in_transaction(
        *connection,
        [&, expected = level] {
          EXPECT_EQ(text_of(*connection, "pragma journal_mode"), "wal");
          EXPECT_EQ(number_of(*connection, "pragma synchronous"), expected);
        },
        access);
  }
}

TEST_F(SqliteDriver, binds_and_reads_every_type) {
  const auto connection = connect();
  create(*connection, "create table thing(a, b, c, d, e, f, g, h, i)");
  const auto uuid = Uuid{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255}};
  const Instant instant{1'700'000'000'123'456us};
  const std::string text{"a\0b ü", 6};
  const std::string bytes{"\x00\xff\x01", 3};
  const auto insert =
      statement("insert", "insert into thing values (@a, @b, @c, @d, @e, @f, @g, @h, @i)");
  in_transaction(*connection, [&] {
    EXPECT_EQ(run(*connection, insert,
                  {{"a", Value{}},
                   {"b", Value{true}},
                   {"c", std::numeric_limits<std::int64_t>::min()},
                   {"d", Value{1.5}},
                   {"e", text},
                   {"f", Value{Bytes{bytes}}},
                   {"g", Value{instant}},
                   {"h", Value{uuid}},
                   {"i", Value{Instant::max()}}}),
              1U);
    int rows = 0;
    connection->execute("select * from thing", {}, [&](const Row& row) {
      ++rows;
      EXPECT_TRUE(row.is_null(0));
      EXPECT_EQ(row.text(0), "");
      EXPECT_TRUE(row.boolean(1));
      EXPECT_EQ(row.integer(2), std::numeric_limits<std::int64_t>::min());
      EXPECT_EQ(row.real(3), 1.5);
      EXPECT_EQ(row.text(4), text);
      EXPECT_EQ(row.bytes(5), bytes);
      EXPECT_EQ(row.instant(6), instant);
      EXPECT_EQ(row.uuid(7), uuid);
      EXPECT_EQ(row.instant(8), Instant::max());
      EXPECT_FALSE(row.is_null(8));
      EXPECT_THROW((void)row.uuid(5), UsageError);
    });
    EXPECT_EQ(rows, 1);
    EXPECT_EQ(text_of(*connection,
                      "select typeof(a) || typeof(b) || typeof(c) || typeof(d) || typeof(e) || "
                      "typeof(f) || typeof(g) || typeof(h) from thing"),
              "nullintegerintegerrealtextblobintegerblob");
  });
}

TEST_F(SqliteDriver, empty_text_and_empty_bytes_are_not_null) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    connection->execute("select typeof(@text), typeof(@bytes)",
                        {{"text", Value{std::string_view{}}}, {"bytes", Value{Bytes{}}}},
                        [](const Row& row) {
                          EXPECT_EQ(row.text(0), "text");
                          EXPECT_EQ(row.text(1), "blob");
                        });
  });
}

TEST_F(SqliteDriver, a_null_now_of_our_own_statements_is_one_reading_of_the_clock) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer, at integer)");
  const auto insert =
      statement("insert", {{.sql = "insert into thing values (@id, @now)", .params = {}},
                           {.sql = "insert into thing values (-@id, @now)", .params = {}}});
  const std::vector<Value> ids{std::int64_t{1}, std::int64_t{2}, std::int64_t{3}};
  in_transaction(*connection, [&] {
    run(*connection, insert, {{"id", ValueType::integer, ids}, {"now", Value{}}});
    EXPECT_EQ(number_of(*connection, "select count(distinct at) from thing"), 1);
    EXPECT_GT(number_of(*connection, "select at from thing"), 1'600'000'000'000'000);
    const Instant given{5us};
    run(*connection, insert, {{"id", 9}, {"now", Value{given}}});
    EXPECT_EQ(number_of(*connection, "select at from thing where id = -9"), 5);
    EXPECT_EQ(connection->execute("select 1 where @now is null", {{"now", Value{}}}), 1U);
  });
}

TEST_F(SqliteDriver, runs_a_block_once_per_element_of_its_columns) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer, label text, box text)");
  const auto insert = statement("insert", "insert into thing values (@id, @label, @box)");
  const std::vector<Value> ids{std::int64_t{1}, std::int64_t{2}, std::int64_t{3}};
  const std::vector<Value> labels{std::string_view{"one"}, Value{}, std::string_view{"three"}};
  in_transaction(*connection, [&] {
    EXPECT_EQ(
        run(*connection, insert,
            {{"box", "b"}, {"id", ValueType::integer, ids}, {"label", ValueType::text, labels}}),
        3U);
    EXPECT_EQ(
        text_of(*connection, "select group_concat(id || ifnull(label, '-') || box) from thing"),
        "1oneb,2-b,3threeb");
    EXPECT_EQ(run(*connection, insert,
                  {{"label", "x"}, {"id", ValueType::integer, ids}, {"box", "other order"}}),
              3U);
    EXPECT_EQ(run(*connection, statement("erase", "delete from thing where id = @id"),
                  {{"id", ValueType::integer, ids}}),
              6U);
  });
}

TEST_F(SqliteDriver, an_empty_column_runs_nothing) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer)");
  in_transaction(*connection, [&] {
    EXPECT_EQ(run(*connection, statement("insert", "insert into thing values (@id)"),
                  {{"id", ValueType::integer, std::span<const Value>{}}}),
              0U);
    EXPECT_EQ(number_of(*connection, "select count(*) from thing"), 0);
  });
}

TEST_F(SqliteDriver, refuses_columns_of_unequal_length_and_missing_arguments) {
  const auto connection = connect();
  const std::vector<Value> two{std::int64_t{1}, std::int64_t{2}};
  const std::vector<Value> one{std::int64_t{1}};
  const auto select = statement("select", "select @a, @b");
  in_transaction(*connection, [&] {
    EXPECT_THROW(
        run(*connection, select, {{"a", ValueType::integer, two}, {"b", ValueType::integer, one}}),
        std::logic_error);
    EXPECT_THROW(run(*connection, select, {{"a", 1}}), UsageError);
    EXPECT_EQ(run(*connection, select, {{"a", 1}, {"b", 2}}), 1U);
    EXPECT_THROW(connection->execute("select ?", {{"a", 1}}), UsageError);
  });
}

TEST_F(SqliteDriver, an_each_step_runs_once_per_row_of_the_step_before) {
  const auto connection = connect();
  create(*connection, "create table work(id integer, note text, data blob, weight real)");
  create(*connection,
         "create table outcome(id integer, note text, data blob, weight real, by text)");
  create(*connection, "create table trace(id integer)");
  const auto ack = statement(
      "ack", {{.sql = "delete from work where id % @every = 0 returning id, note, data, weight",
               .params = {}},
              {.sql = "insert into outcome values (@id, @note, @data, @weight, @by)",
               .params = {},
               .each = true},
              {.sql = "insert into trace values (@id)", .params = {}, .each = true}});
  in_transaction(*connection, [&] {
    connection->execute(
        "insert into work values (1, 'a', x'00ff', 0.5), (2, null, x'', 1.5), (4, '', null, 2.5)");
    std::vector<std::int64_t> seen;
    // The sink reads the number as text, which converts it in place.
    EXPECT_EQ(run(*connection, ack, {{"every", 2}, {"by", "me"}},
                  [&](const Row& row) { seen.push_back(std::stol(std::string{row.text(0)})); }),
              2U);
    EXPECT_EQ(seen, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(text_of(*connection,
                      "select group_concat(id || typeof(id) || ifnull(note, 'null') || "
                      "ifnull(hex(data), '') || typeof(data) || weight || by, ' ') from outcome"),
              "2integernullblob1.5me 4integernull2.5me");
    EXPECT_EQ(number_of(*connection, "select sum(id) from trace"), 6);
    EXPECT_EQ(run(*connection, ack, {{"every", 2}, {"by", "me"}}), 0U);
  });
}

TEST_F(SqliteDriver, an_each_step_uses_the_rows_of_its_own_element_only) {
  const auto connection = connect();
  create(*connection, "create table work(id integer, kind integer)");
  create(*connection, "create table outcome(id integer, kind integer)");
  const auto ack = statement(
      "ack",
      {{.sql = "delete from work where kind = @kind returning id", .params = {}},
       {.sql = "insert into outcome values (@id, @kind) returning id", .params = {}, .each = true},
       {.sql = "update outcome set id = -id where id = @id", .params = {}, .each = true}});
  const std::vector<Value> kinds{std::int64_t{7}, std::int64_t{9}, std::int64_t{8}};
  in_transaction(*connection, [&] {
    connection->execute("insert into work values (1, 7), (2, 7), (3, 8), (4, 6)");
    EXPECT_EQ(run(*connection, ack, {{"kind", ValueType::integer, kinds}}), 3U);
    EXPECT_EQ(text_of(*connection, "select group_concat(id || '/' || kind) from outcome"),
              "-1/7,-2/7,-3/8");
  });
}

TEST_F(SqliteDriver, an_each_step_needs_a_step_that_returns_rows) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    EXPECT_THROW(
        run(*connection, statement("wrong", {{.sql = "select 1", .params = {}, .each = true}})),
        std::logic_error);
  });
}

TEST_F(SqliteDriver, for_many_elements_a_block_may_have_steps_that_run_once) {
  const auto connection = connect();
  create(*connection, "create table work(id integer primary key, epoch integer)");
  create(*connection, "create table trace(way text)");
  Statement ack = statement(
      "ack", {{.sql = "insert into trace values ('each')", .params = {}},
              {.sql = "delete from work where id = @id and epoch = @epoch", .params = {}}});
  ack.many = {{.sql = "insert into trace values (@way)", .params = {}},
              {.sql = "delete from work where id in (select w.id from json_each(@rows) r join work "
                      "w on w.id = cast(r.key as integer) and w.epoch = r.value)",
               .params = {}}};
  const auto run_for = [&](int count) {
    std::vector<Value> ids;
    std::vector<Value> epochs;
    for (std::int64_t i = 0; i < count; ++i) {
      connection->execute("insert or replace into work values (@id, 3)", {{"id", i - 2}});
      ids.emplace_back(i - 2);
      epochs.emplace_back(i == 1 ? std::int64_t{4} : std::int64_t{3});
    }
    connection->execute("delete from trace");
    return run(
        *connection, ack,
        {{"epoch", ValueType::integer, epochs}, {"way", "many"}, {"id", ValueType::integer, ids}});
  };
  in_transaction(*connection, [&] {
    EXPECT_EQ(run_for(7), 6U);
    EXPECT_EQ(text_of(*connection, "select count(*) || min(way) from trace"), "7each");
    EXPECT_EQ(run_for(100), 99U);
    EXPECT_EQ(text_of(*connection, "select count(*) || min(way) from trace"), "1many");
    EXPECT_EQ(text_of(*connection, "select group_concat(id) from work"), "-1");
    const std::vector<Value> numbers(100, std::int64_t{3});
    EXPECT_THROW(run(*connection, ack, {{"id", ValueType::integer, numbers}}), std::logic_error);
    EXPECT_THROW(run(*connection, ack,
                     {{"id", ValueType::integer, numbers}, {"age", ValueType::integer, numbers}}),
                 std::logic_error);
  });
}

TEST_F(SqliteDriver, counts_changed_rows_and_nothing_for_a_definition) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    EXPECT_EQ(connection->execute("create table thing(id integer)"), 0U);
    EXPECT_EQ(connection->execute("insert into thing values (1), (2)"), 2U);
    EXPECT_EQ(connection->execute("create table other(id integer)"), 0U);
    EXPECT_EQ(connection->execute("update thing set id = 5 where id = 9"), 0U);
    EXPECT_EQ(connection->execute("update thing set id = 5 returning id"), 2U);
  });
}

TEST_F(SqliteDriver, rolls_back_and_tolerates_a_second_rollback) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer)");
  connection->begin(Access::write, Scope::transaction);
  connection->execute("insert into thing values (1)");
  EXPECT_TRUE(connection->in_transaction());
  connection->rollback();
  connection->rollback();
  EXPECT_FALSE(connection->in_transaction());
  in_transaction(
      *connection, [&] { EXPECT_EQ(number_of(*connection, "select count(*) from thing"), 0); },
      Access::read);
}

TEST_F(SqliteDriver, the_callers_sql_can_neither_begin_nor_end_the_transaction) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    for (const auto* sql : {"commit", " /* so */ COMMIT;", "-- x\nend", "rollback",
                            "BEGIN immediate", "rollback transaction"}) {
      EXPECT_THROW(connection->execute(sql), UsageError) << sql;
    }
    EXPECT_THROW(connection->execute("select 1; commit"), UsageError);
    EXPECT_THROW(connection->execute("  -- nothing"), UsageError);
    EXPECT_EQ(connection->execute("select 1; -- and a remark"), 1U);
    connection->execute("savepoint mine");
    connection->execute("rollback to mine");
    connection->execute("release mine");
    EXPECT_TRUE(connection->in_transaction());
  });
}

TEST_F(SqliteDriver, forgets_the_callers_oldest_statements_and_prepares_them_again) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    for (int round = 0; round < 2; ++round) {
      for (int number = 0; number < 100; ++number) {
        const auto sql = "select " + std::to_string(number);
        EXPECT_EQ(number_of(*connection, sql), number);
      }
    }
  });
}

}  // namespace
}  // namespace twinbox
