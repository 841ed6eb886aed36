#include "sql/render.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace twinbox {
namespace {

using Names = std::vector<std::string>;

const BoxName outbox{"infra", "outbox"};

std::string rendered(Dialect dialect, const BoxName& box, std::string_view text) {
  return render_text(text, placeholders(dialect, box));
}

std::vector<Statement> parsed(std::string_view text, Dialect dialect = Dialect::postgres) {
  return parse_statements({"work.sql", text}, dialect, placeholders(dialect, outbox));
}

std::string refusal(std::string_view text, Dialect dialect = Dialect::postgres) {
  try {
    parsed(text, dialect);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "accepted";
}

std::string name_refusal(const BoxName& box, Dialect dialect) {
  try {
    check_box_name(box, dialect);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Quote, doubles_the_marks_inside) {
  EXPECT_EQ(quote_identifier("outbox"), "\"outbox\"");
  EXPECT_EQ(quote_identifier("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(quote_text("it's"), "'it''s'");
}

TEST(BoxName, may_need_quoting) {
  for (const Dialect dialect : {Dialect::sqlite, Dialect::postgres}) {
    EXPECT_EQ(name_refusal(outbox, dialect), "accepted");
    EXPECT_EQ(name_refusal({"My Schema", "select \"; drop table x; --"}, dialect), "accepted");
    EXPECT_EQ(name_refusal({"größe", "{work} @now $1 'x'"}, dialect), "accepted");
    EXPECT_EQ(name_refusal({std::string(63, 's'), std::string(40, 't')}, dialect), "accepted");
  }
}

TEST(BoxName, is_refused_when_a_database_could_not_keep_it) {
  for (const Dialect dialect : {Dialect::sqlite, Dialect::postgres}) {
    EXPECT_EQ(name_refusal({"", "outbox"}, dialect),
              "schema name: empty, 1 to 63 bytes are needed");
    EXPECT_EQ(name_refusal({"infra", ""}, dialect), "table name: empty, 1 to 40 bytes are needed");
    EXPECT_EQ(name_refusal({"infra", std::string(41, 't')}, dialect),
              "table name: 41 bytes, at most 40 are allowed");
    EXPECT_EQ(name_refusal({std::string(64, 's'), "outbox"}, dialect),
              "schema name: 64 bytes, at most 63 are allowed");
    EXPECT_EQ(name_refusal({"infra", std::string("a\0b", 3)}, dialect),
              "table name: contains NUL, leave it out");
    EXPECT_EQ(name_refusal({"infra", "a\xFF"}, dialect),
              "table name: not UTF-8, only UTF-8 text is allowed");
  }
}

TEST(BoxName, keeps_clear_of_what_only_one_database_forbids) {
  EXPECT_NE(name_refusal({"infra", "a.b"}, Dialect::sqlite), "accepted");
  EXPECT_NE(name_refusal({"a.b", "outbox"}, Dialect::sqlite), "accepted");
  EXPECT_NE(name_refusal({"infra", "SQLite_box"}, Dialect::sqlite), "accepted");
  EXPECT_EQ(name_refusal({"a.b", "a.b"}, Dialect::postgres), "accepted");
  EXPECT_NE(name_refusal({"pg_box", "outbox"}, Dialect::postgres), "accepted");
  EXPECT_NE(name_refusal({"infra", "a$$b"}, Dialect::postgres), "accepted");
  EXPECT_NE(name_refusal({"infra", "a$body$b"}, Dialect::postgres), "accepted");
  EXPECT_EQ(name_refusal({"infra", "a$ b$"}, Dialect::postgres), "accepted");
}

TEST(Placeholders, name_the_tables_of_a_box_on_postgres) {
  const auto text = [](std::string_view template_text) {
    return rendered(Dialect::postgres, outbox, template_text);
  };
  EXPECT_EQ(text("{message} {work}"), R"("infra"."outbox_message" "infra"."outbox_work")");
  EXPECT_EQ(text("{outcome}{failure}{audit}"),
            R"("infra"."outbox_outcome""infra"."outbox_failure""infra"."outbox_audit")");
  EXPECT_EQ(text("{box} {schema} {version}"),
            R"("infra"."outbox" "infra" "infra"."twinbox_schema")");
  EXPECT_EQ(text("{schema_text} {table_text}"), "'infra' 'outbox'");
  EXPECT_EQ(text("{work_text}::regclass"), R"('"infra"."outbox_work"'::regclass)");
  EXPECT_EQ(text("{name:work_visible}"), R"("outbox_work_visible")");
  EXPECT_EQ(text("{function:claim}(1)"), R"("infra"."outbox_claim"(1))");
  EXPECT_EQ(text("{now}"), "coalesce(@now::timestamptz, statement_timestamp())");
}

TEST(Placeholders, put_the_schema_into_the_name_on_sqlite) {
  const BoxName tenant{"tenant", "outbox"};
  EXPECT_EQ(rendered(Dialect::sqlite, outbox, "{work} {box} {version} {name:work_visible} {now}"),
            R"("outbox_work" "outbox" "twinbox_schema" "outbox_work_visible" @now)");
  EXPECT_EQ(rendered(Dialect::sqlite, tenant, "{work} {box} {version} {name:work_visible}"),
            R"("tenant.outbox_work" "tenant.outbox" "tenant.twinbox_schema" )"
            R"("tenant.outbox_work_visible")");
  EXPECT_EQ(rendered(Dialect::sqlite, tenant, "{schema_text} {work_text}"),
            R"('tenant' '"tenant.outbox_work"')");
}

TEST(Placeholders, take_hostile_names_as_names) {
  const BoxName hostile{"a\"b'c", "{work} @now; --"};
  EXPECT_EQ(rendered(Dialect::postgres, hostile, "{work} {schema_text} {name:x}"),
            R"("a""b'c"."{work} @now; --_work" 'a"b''c' "{work} @now; --_x")");
}

TEST(Placeholders, leave_other_braces_alone) {
  EXPECT_EQ(rendered(Dialect::postgres, outbox, "'{}' '{1,2}' '{A}' { x } {a-b} {"),
            "'{}' '{1,2}' '{A}' { x } {a-b} {");
}

TEST(Placeholders, are_refused_when_unknown) {
  const Placeholders values = placeholders(Dialect::postgres, outbox);
  EXPECT_THROW(render_text("{wrok}", values), std::logic_error);
  EXPECT_THROW(render_text("{name:}", values), std::logic_error);
  EXPECT_THROW(render_text("{other:x}", values), std::logic_error);
  EXPECT_THROW(rendered(Dialect::sqlite, outbox, "{schema}"), std::logic_error);
}

TEST(Placeholders, may_stand_inside_each_other_but_not_in_a_circle) {
  EXPECT_EQ(render_text("{a}", {{"a", "x {b}"}, {"b", "y '{c}' {c}"}, {"c", "@z"}}),
            "x y '{c}' @z");
  EXPECT_THROW(render_text("{a}", {{"a", "{b}"}, {"b", "{a}"}}), std::logic_error);
}

TEST(Placeholders, are_replaced_inside_quotation_marks_of_the_text_itself) {
  EXPECT_EQ(rendered(Dialect::postgres, outbox, "$$ select {work_text} $$, 'of {table_text}'"),
            R"($$ select '"infra"."outbox_work"' $$, 'of 'outbox'')");
}

TEST(Parameters, are_numbered_by_first_use_on_postgres) {
  const auto [sql, names] = rewrite_parameters(
      "select @b::bigint[], @a, @b from t where x=@a and y<@c_1", Dialect::postgres);
  EXPECT_EQ(sql, "select $1::bigint[], $2, $1 from t where x=$2 and y<$3");
  EXPECT_EQ(names, (Names{"b", "a", "c_1"}));
}

TEST(Parameters, keep_their_names_on_sqlite) {
  const auto [sql, names] = rewrite_parameters("select @b, @a, @b, `@c`, [@d]", Dialect::sqlite);
  EXPECT_EQ(sql, "select @b, @a, @b, `@c`, [@d]");
  EXPECT_EQ(names, (Names{"b", "a"}));
}

TEST(Parameters, are_not_found_in_quotes_comments_and_operators) {
  const std::string text =
      "select '@a ''@b', \"@c\", E'\\'@d', $$ @e $$, $tag$ @f $$ $tag$, x @> y, x <@ y, x @@ y, "
      "x @@to_tsquery('q') -- @g\n /* @h /* @i */ @j */ , date'2020-01-01', a$b, $1";
  const auto [sql, names] = rewrite_parameters(text, Dialect::postgres);
  EXPECT_EQ(sql, text);
  EXPECT_TRUE(names.empty());
}

TEST(Parameters, of_sql_server_are_not_its_own_variables) {
  const std::string text =
      "declare @n int = @limit; declare @t table (x int); set @n = @@rowcount + @limit; "
      "select @owner, @n, [@a], \"@b\", N'@c' from @t /* @d /* @e */ @f */";
  const auto [sql, names] = rewrite_parameters(text, Dialect::sqlserver);
  EXPECT_EQ(sql, text);
  EXPECT_EQ(names, (Names{"limit", "owner"}));
}

TEST(Parameters, follow_quotes_directly) {
  const auto [sql, names] = rewrite_parameters("'a'||@x||'@y'||@z", Dialect::postgres);
  EXPECT_EQ(sql, "'a'||$1||'@y'||$2");
  EXPECT_EQ(names, (Names{"x", "z"}));
}

TEST(Parameters, of_an_unfinished_text_do_no_harm) {
  for (const char* text :
       {"", "@", "'", "\"", "$", "$$", "$a$", "/*", "--", "E'", "E'\\", "@@", "'@"}) {
    for (const Dialect dialect : {Dialect::sqlite, Dialect::postgres, Dialect::sqlserver}) {
      EXPECT_EQ(rewrite_parameters(text, dialect).first, text);
    }
  }
}

TEST(Script, is_split_at_its_semicolons) {
  EXPECT_EQ(split_statements(
                "-- first\ncreate table a (x int);\n\n/* second */ drop table a ; ;\n-- end"),
            (Names{"create table a (x int)", "drop table a"}));
  EXPECT_EQ(split_statements("select 1"), (Names{"select 1"}));
  EXPECT_TRUE(split_statements(" \n-- nothing\n;").empty());
}

TEST(Script, is_not_split_inside_quotes_and_bodies) {
  EXPECT_EQ(split_statements("insert into \"a;b\" values (';', E'\\';');"
                             "create function f() returns int language plpgsql as $body$\n"
                             "begin -- one;\n return 1; end $body$;"
                             "select 2 -- ; no\n;"),
            (Names{"insert into \"a;b\" values (';', E'\\';')",
                   "create function f() returns int language plpgsql as $body$\n"
                   "begin -- one;\n return 1; end $body$",
                   "select 2 -- ; no"}));
}

TEST(Script, is_not_split_inside_a_trigger) {
  const std::string trigger =
      "CREATE TEMP TRIGGER t after insert on a begin\n"
      "  update a set x = case when x > 1 then 2 else 3 end;\n"
      "  delete from b;\nend";
  EXPECT_EQ(split_statements(trigger + ";\nselect 1;"), (Names{trigger, "select 1"}));
  EXPECT_EQ(split_statements("create trigger t before insert on a execute function f(); select 1;"),
            (Names{"create trigger t before insert on a execute function f()", "select 1"}));
  const std::string function =
      "create or replace function f() returns int begin atomic select 1; end";
  EXPECT_EQ(split_statements(function + "; select 2"), (Names{function, "select 2"}));
}

TEST(Script, of_sql_server_is_split_at_its_go_lines) {
  const std::string trigger = "create trigger t on a after delete as\nbegin\n  select 'go';\nend";
  EXPECT_EQ(
      split_statements("-- first\ncreate table go_a (x int);\nGO\n\n-- second\n" + trigger +
                           ";\ngo  \ngo\ndrop table a; /* \ngo\n */ select 1\n-- end",
                       Dialect::sqlserver),
      (Names{"create table go_a (x int)", trigger, "drop table a; /* \ngo\n */ select 1\n-- end"}));
  EXPECT_TRUE(split_statements(" \n-- nothing\ngo", Dialect::sqlserver).empty());
}

TEST(Script, takes_begin_and_end_as_statements_elsewhere) {
  EXPECT_EQ(split_statements("begin; create table trigger_log (x int); end;"),
            (Names{"begin", "create table trigger_log (x int)", "end"}));
}

TEST(Block, becomes_a_statement) {
  const auto statements = parsed(
      "-- What this file is about; {nothing} here counts.\n"
      "\n"
      "-- Why.\n"
      "-- name: renew\n"
      "update {work} -- only @ours\n"
      "  -- a reason\n"
      "set lease_until = {now} + @lease::interval, note = '@x; {table_text}'\n"
      "where id = @id;\n"
      "\n"
      "-- name: reap\n"
      "delete from {failure};  -- all\n");
  ASSERT_EQ(statements.size(), 2u);
  EXPECT_EQ(statements[0].name, "renew");
  ASSERT_EQ(statements[0].steps.size(), 1u);
  EXPECT_EQ(statements[0].steps[0].sql,
            "update \"infra\".\"outbox_work\"\n"
            "set lease_until = coalesce($1::timestamptz, statement_timestamp()) + $2::interval, "
            "note = '@x; 'outbox''\n"
            "where id = $3");
  EXPECT_EQ(statements[0].steps[0].params, (Names{"now", "lease", "id"}));
  EXPECT_TRUE(statements[0].call.empty());
  EXPECT_EQ(statements[1].name, "reap");
  EXPECT_NE(statements[0].number, statements[1].number);
}

TEST(Block, has_steps_with_parameters_of_their_own) {
  const auto statements = parsed(
      "-- name: claim\n"
      "select id, 'a;\n', \";\n\" from {work} where a = @a; select 1;\n"
      "-- each\n"
      "update {work} set owner = @owner where id = @id;\n"
      "-- call\n"
      "select * from {function:claim}(@owner, @a);\n",
      Dialect::postgres);
  ASSERT_EQ(statements.size(), 1u);
  const Statement& claim = statements[0];
  ASSERT_EQ(claim.steps.size(), 2u);
  EXPECT_EQ(claim.steps[0].sql,
            "select id, 'a;\n', \";\n\" from \"infra\".\"outbox_work\" where a = $1; select 1");
  EXPECT_FALSE(claim.steps[0].each);
  EXPECT_TRUE(claim.steps[1].each);
  EXPECT_EQ(claim.steps[1].params, (Names{"owner", "id"}));
  ASSERT_EQ(claim.call.size(), 1u);
  EXPECT_EQ(claim.call[0].sql, "select * from \"infra\".\"outbox_claim\"($1, $2)");
  EXPECT_EQ(claim.call[0].params, (Names{"owner", "a"}));
  EXPECT_FALSE(claim.call[0].each);
}

TEST(Block, may_have_steps_for_one_on_postgres) {
  const auto statements = parsed(
      "-- name: add\n"
      "select * from unnest(@id::bigint[]);\n"
      "-- one\n"
      "select @id;\n"
      "-- one\n"
      "select 2;\n",
      Dialect::postgres);
  ASSERT_EQ(statements.size(), 1u);
  EXPECT_EQ(statements[0].steps.size(), 1u);
  ASSERT_EQ(statements[0].one.size(), 2u);
  EXPECT_EQ(statements[0].one[0].params, Names{"id"});
}

TEST(Block, may_have_steps_for_many_on_sqlite) {
  const auto statements = parsed(
      "-- name: ack\n"
      "delete from {work} where id = @id;\n"
      "-- many\n"
      "delete from {work} where id in (select key from json_each(@rows));\n",
      Dialect::sqlite);
  ASSERT_EQ(statements.size(), 1u);
  EXPECT_EQ(statements[0].steps.size(), 1u);
  ASSERT_EQ(statements[0].many.size(), 1u);
  EXPECT_EQ(statements[0].many[0].params, Names{"rows"});
}

TEST(Block, has_no_steps_that_its_dialect_never_runs) {
  for (const Dialect dialect : {Dialect::sqlite, Dialect::sqlserver}) {
    EXPECT_EQ(refusal("-- name: ack\nselect 1;\n-- one\nselect 2;\n", dialect),
              "work.sql: block ack: `-- one` is never run outside PostgreSQL, remove it");
  }
  for (const Dialect dialect : {Dialect::postgres, Dialect::sqlserver}) {
    EXPECT_EQ(refusal("-- name: ack\nselect 1;\n-- many\nselect 2;\n", dialect),
              "work.sql: block ack: `-- many` is never run outside SQLite, remove it");
  }
}

TEST(Block, may_use_definitions_of_its_file) {
  const auto statements = parsed(
      "-- define: held\n"
      "id = @id and owner = @owner\n"
      "-- About the next one.\n"
      "-- define: lease\n"
      "update {work} set owner = @owner\n"
      "where {held};\n"
      "-- name: claim\n"
      "select id from {work};\n"
      "-- each\n"
      "{lease}\n"
      "-- name: ack\n"
      "delete from {work} where {held} and 1 = 1;\n",
      Dialect::sqlite);
  ASSERT_EQ(statements.size(), 2u);
  ASSERT_EQ(statements[0].steps.size(), 2u);
  EXPECT_EQ(statements[0].steps[1].sql,
            "update \"outbox_work\" set owner = @owner\nwhere id = @id and owner = @owner");
  EXPECT_TRUE(statements[0].steps[1].each);
  EXPECT_EQ(statements[1].steps[0].sql,
            "delete from \"outbox_work\" where id = @id and owner = @owner and 1 = 1");
}

TEST(Block, may_use_definitions_with_a_suffix) {
  const auto statements = parsed(
      "-- define: plain:\n"
      "lower(j.%, {now})\n"
      "-- name: get\n"
      "select {plain:id}, {plain:topic} from j;\n",
      Dialect::sqlite);
  ASSERT_EQ(statements.size(), 1u);
  EXPECT_EQ(statements[0].steps[0].sql, "select lower(j.id, @now), lower(j.topic, @now) from j");
}

TEST(Block, is_refused_with_its_file_and_name) {
  EXPECT_EQ(refusal("-- name: ack\ndelete from {wrok};\n"),
            "work.sql: block ack: unknown placeholder {wrok}, use one that placeholders() defines");
  EXPECT_EQ(refusal("-- name: ack\nselect 1\n"),
            "work.sql: block ack: the last statement has no semicolon at a line's end, add it");
  EXPECT_EQ(refusal("select 1;\n"),
            "work.sql: SQL before the first block, give it a line `-- name: …`");
  EXPECT_EQ(refusal("-- name: Not A Name\nselect 1;\n"),
            "work.sql: \"Not A Name\" is no name, write a-z, 0-9 and _");
  EXPECT_EQ(refusal("-- name: ack\n"),
            "work.sql: block ack: no statement, write one or remove the block");
  EXPECT_EQ(refusal("-- name: ack\nselect\n-- each\n1;\n"),
            "work.sql: block ack: a mark inside a statement, put it before the statement");
  EXPECT_EQ(refusal("-- name: ack\n-- each\nselect 1;\n"),
            "work.sql: block ack: `-- each` before the first step, put a step that returns rows "
            "before it");
  EXPECT_EQ(refusal("-- name: ack\nselect 1;\n-- call\n"),
            "work.sql: block ack: a mark without a statement after it, remove it");
  EXPECT_EQ(refusal("-- define: work\nx\n-- name: ack\nselect 1;\n"),
            "work.sql: {work} is defined already, rename one");
}

TEST(StatementSet, finds_statements_by_name_in_every_file_with_blocks) {
  const std::array<SqlFile, 4> files = {{{"function/claim.sql", "-- name: not_me\nselect 1;"},
                                         {"grant.sql", "grant select on {work} to x;"},
                                         {"intake.sql", "-- about\n\n-- name: accept\nselect 1;"},
                                         {"work.sql", "-- name: claim\nselect 2;"}}};
  const StatementSet statements{Dialect::sqlite, outbox, files};
  EXPECT_EQ(statements["claim"].steps[0].sql, "select 2");
  EXPECT_TRUE(statements.contains("accept"));
  EXPECT_FALSE(statements.contains("not_me"));
  EXPECT_THROW((void)statements["forget"], std::logic_error);
}

TEST(StatementSet, numbers_its_statements_apart_from_every_other_set) {
  const std::array<SqlFile, 1> files = {{{"work.sql", "-- name: claim\nselect 2;"}}};
  const StatementSet first{Dialect::sqlite, outbox, files};
  const StatementSet second{Dialect::sqlite, {"infra", "inbox"}, files};
  EXPECT_NE(first["claim"].number, second["claim"].number);
}

TEST(StatementSet, is_shared_by_all_boxes_of_a_name_as_long_as_there_is_one) {
  const auto first = shared_statements(Dialect::sqlite, {"infra", "shared_outbox"});
  EXPECT_EQ(shared_statements(Dialect::sqlite, {"infra", "shared_outbox"}), first);
  EXPECT_NE(shared_statements(Dialect::postgres, {"infra", "shared_outbox"}), first);
  EXPECT_NE(shared_statements(Dialect::sqlite, {"infra", "shared_inbox"}), first);
  EXPECT_EQ(first.use_count(), 1);
}

TEST(StatementSet, refuses_one_name_in_two_files_and_bad_box_names) {
  const std::array<SqlFile, 2> files = {
      {{"a.sql", "-- name: claim\nselect 1;"}, {"b.sql", "-- name: claim\nselect 2;"}}};
  EXPECT_THROW((StatementSet{Dialect::sqlite, outbox, files}), std::logic_error);
  EXPECT_THROW((StatementSet{Dialect::sqlite, {"infra", ""}, files}), std::invalid_argument);
}

TEST(StatementSet, renders_the_same_statements_for_every_dialect) {
  const StatementSet sqlite{Dialect::sqlite, outbox};
  const StatementSet postgres{Dialect::postgres, outbox};
  Names names[2];
  for (const auto& [name, statement] : sqlite) names[0].emplace_back(name);
  for (const auto& [name, statement] : postgres) names[1].emplace_back(name);
  std::erase(names[1], "require_synchronous");  // a file has no standby
  EXPECT_EQ(names[0], names[1]);
}

}  // namespace
}  // namespace twinbox
