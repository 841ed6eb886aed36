// The inbox as SQL shows it: one row per message in the words of the inbox document, and its
// tables.
#include <tuple>

#include "support/inbox_test.hpp"
#include "support/postgres.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class InboxView : public InboxTest {
 protected:
  std::string shown(const std::string& column, const std::string& id = "evt_1") {
    return read("select " + column + " from {schema}inbox where MessageId = '" + id + "'");
  }
  std::string status(const std::string& id) { return shown("Status", id); }

  /// The plan of a query, without the choice that a nearly empty table suggests.
  std::string plan(const std::string& query) {
    std::string text;
    database().in_transaction([&](Session& session) {
      if (on_postgres()) session.execute("set local enable_seqscan = off");
      session.execute(
          in_schema((on_postgres() ? "explain " : "explain query plan ") + query), {},
          [&](const Row& row) { text += std::string{row.text(on_postgres() ? 0 : 3)} + "\n"; });
    });
    return text;
  }

  /// SQL Server shows no plan to whoever has no right to see one: the columns of the index.
  std::string first_columns(const std::string& index) {
    std::string text;
    database().in_transaction([&](Session& session) {
      session.execute(
          "select c.name from sys.indexes i join sys.index_columns k on k.object_id = i.object_id "
          "and k.index_id = i.index_id join sys.columns c on c.object_id = k.object_id and "
          "c.column_id = k.column_id join sys.objects o on o.object_id = i.object_id "
          "join sys.schemas s on s.schema_id = o.schema_id "
          "where i.name like @index and s.name = @schema order by k.key_ordinal",
          // Servers that stand in for it make the names of indexes longer.
          {{"index", index + "%"}, {"schema", test_store().schema()}},
          [&](const Row& row) { text += std::string{row.text(0)} + " "; });
    });
    return text;
  }

  bool inbox_exists() {
    try {
      read("select count(*) from {schema}inbox");
      return true;
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::missing_schema) << error.what();
      return false;
    }
  }
};

TEST_P(InboxView, IBX_117_has_every_column_of_the_inbox_document) {
  inbox().accept(an_arrival());
  EXPECT_EQ(read("select count(*) from (select Source, MessageId, Topic, Payload, Hash, "
                 "FirstSeenUtc, LastSeenUtc, Status, LockedUntil, OwnerToken, Attempt, LastError, "
                 "NextAttemptAt, DueTimeUtc from {schema}inbox) all_columns"),
            "1");
}

TEST_P(InboxView, IBX_117_shows_the_four_states_of_the_document) {
  std::ignore = inbox().already_processed(a_key("seen"));
  std::ignore = inbox().already_processed(a_key("marked"));
  std::ignore = inbox().mark_processing(a_key("marked"));
  make_done(an_arrival("done"));
  make_dead(an_arrival("dead"));
  inbox().accept(an_arrival("open"));
  EXPECT_EQ(status("seen"), "Seen");
  EXPECT_EQ(status("marked"), "Processing");
  EXPECT_EQ(status("open"), "Processing");
  EXPECT_EQ(status("done"), "Done");
  EXPECT_EQ(status("dead"), "Dead");
}

TEST_P(InboxView, IBX_034_IBX_035_shows_owner_and_lease_while_it_is_held) {
  inbox().accept(an_arrival());
  EXPECT_EQ(shown("OwnerToken"), "null");
  EXPECT_EQ(shown("LockedUntil"), "null");
  const auto held = inbox().claim(worker_a, 30s, 1);
  EXPECT_NE(shown("OwnerToken"), "null");
  EXPECT_NE(shown("LockedUntil"), "null");
  inbox().release(worker_a, held);
  EXPECT_EQ(shown("OwnerToken"), "null");
  EXPECT_EQ(shown("LockedUntil"), "null");
}

TEST_P(InboxView, shows_one_row_for_a_message_with_several_deliveries) {
  const std::vector<HandlerName> handlers{{HandlerKey{"a"}}, {HandlerKey{"b"}}, {HandlerKey{"c"}}};
  inbox().accept(an_arrival(), handlers);
  const auto messages = inbox().claim(worker_a, 30s, 3);
  inbox().ack(worker_a, messages[0]);
  inbox().fail(worker_a, messages[1], "boom");
  EXPECT_EQ(status("evt_1"), "Processing");
  inbox().ack(worker_a, messages[2]);
  EXPECT_EQ(status("evt_1"), "Dead");
  EXPECT_EQ(shown("LastError"), "boom");
  EXPECT_EQ(read("select count(*) from {schema}inbox"), "1");
}

TEST_P(InboxView, IBX_114_IBX_115_IBX_116_is_created_when_asked_to_and_only_then) {
  BoxOptions bare = options();
  bare.deploy_schema = false;
  EXPECT_THROW(Inbox(database(), bare), SchemaError);
  EXPECT_FALSE(inbox_exists());

  Schema schema(database(), BoxKind::inbox, bare);
  EXPECT_TRUE(schema.check().missing());
  EXPECT_FALSE(inbox_exists());
  EXPECT_FALSE(schema.deploy().empty());
  EXPECT_TRUE(inbox_exists());
  EXPECT_TRUE(schema.check().current());

  Inbox inbox(database(), bare);
  inbox.accept(an_arrival());
  EXPECT_TRUE(schema.deploy().empty());
  Inbox again(database(), options());
  EXPECT_EQ(again.accept(an_arrival()).state, Acceptance::duplicate_open);
}

TEST_P(InboxView, has_an_index_for_claims) {
  inbox().accept(an_arrival());
  if (on_sqlserver()) {
    EXPECT_EQ(first_columns("inbox_work_visible"), "waiting visible_at id ");
    return;
  }
  const std::string text =
      plan(on_postgres() ? "select id from {schema}inbox_work where not waiting and visible_at <= "
                           "now() order by visible_at limit 10"
                         : "select id from inbox_work where waiting = 0 and visible_at <= 1 "
                           "order by visible_at, id limit 10");
  EXPECT_NE(text.find("inbox_work_visible"), std::string::npos) << text;
  EXPECT_EQ(text.find("Sort"), std::string::npos) << text;
  EXPECT_EQ(text.find("TEMP B-TREE"), std::string::npos) << text;
}

TEST_P(InboxView, has_one_index_for_source_and_id) {
  inbox().accept(an_arrival());
  if (on_sqlserver()) {
    EXPECT_EQ(first_columns("inbox_message_key"), "id source ");
    return;
  }
  const std::string text =
      plan("select number from {schema}inbox_message where source = 'stripe' and id = 'evt_1'");
  EXPECT_NE(text.find("inbox_message_key"), std::string::npos) << text;
  const std::size_t condition = text.find(on_postgres() ? "Index Cond" : "(id=? AND source=?)");
  ASSERT_NE(condition, std::string::npos) << text;
  EXPECT_NE(text.find("source", condition), std::string::npos) << text;
  EXPECT_NE(text.find("id", condition), std::string::npos) << text;
  EXPECT_THROW(write("insert into {schema}inbox_message (source, id, created_at, last_seen_at) "
                     "select source, id, created_at, last_seen_at from {schema}inbox_message"),
               DatabaseError);
}

TWINBOX_ON_EVERY_BACKEND(InboxView);

class InboxOnAServer : public InboxTest {};

TEST_P(InboxOnAServer, IBX_126_works_for_a_role_that_can_only_read_and_write_its_tables) {
  inbox();
  const std::string role = test_store().schema() + "_app";
  PgClient admin(test_store().address());
  admin.run("create role \"" + role + "\"");
  admin.run(Schema(database(), BoxKind::inbox, options()).print_grants(role));
  {
    Database as_role(with_setting(test_store().address(), "options=-c%20role%3D" + role), {},
                     environment());
    BoxOptions bare = options();
    bare.deploy_schema = false;
    Inbox inbox(as_role, bare);
    inbox.accept(an_arrival("a"));
    inbox.accept(std::vector{an_arrival("a"), an_arrival("b")});
    std::ignore = inbox.already_processed(a_key("c"));
    EXPECT_TRUE(inbox.mark_processing(a_key("c")));
    EXPECT_TRUE(inbox.mark_dead(a_key("c")));
    EXPECT_TRUE(inbox.try_claim(a_key("d"), Topic{"t"}));
    EXPECT_TRUE(inbox.release_claim(a_key("d")));
    const auto messages = inbox.claim(worker_a, 30s, 10);
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_EQ(inbox.ack(worker_a, messages[0]), 1u);
    EXPECT_EQ(inbox.abandon(worker_a, messages[1], "busy"), 1u);
    EXPECT_TRUE(inbox.mark_processed(a_key("b")));
    inbox.reap();
    inbox.expire();
    clock().advance(1h);
    EXPECT_EQ(inbox.prune({.older_than = 1s}), 2u);
    EXPECT_THROW(as_role.in_transaction([&](Session& session) {
      session.execute(in_schema("drop table {schema}inbox_message cascade"));
    }),
                 DatabaseError);
  }
  admin.run("drop owned by \"" + role + "\"");
  admin.run("drop role \"" + role + "\"");
}

TEST_P(InboxOnAServer, IBX_128_talks_over_an_encrypted_connection) {
  Database encrypted(test_setting("TWINBOX_TEST_POSTGRES_TLS"), {}, environment());
  Inbox inbox(encrypted, options());
  inbox.accept(an_arrival());
  std::string ssl;
  encrypted.in_transaction([&](Session& session) {
    inbox.accept(session, an_arrival());
    session.execute("select ssl::text from pg_stat_ssl where pid = pg_backend_pid()", {},
                    [&](const Row& row) { ssl = row.text(0); });
  });
  EXPECT_EQ(ssl, "true");
}

TWINBOX_ON_BACKENDS(InboxOnAServer, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
