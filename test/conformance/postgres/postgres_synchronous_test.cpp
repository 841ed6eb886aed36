// An inbox that takes nothing in unless its commit waits for a standby.
#include "support/backend.hpp"
#include "support/postgres_pair.hpp"
#include "support/postgres_wire.hpp"
#include <twinbox/health.hpp>
#include <twinbox/session.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class RequireSynchronous : public ::testing::TestWithParam<Backend> {
 protected:
  static void SetUpTestSuite() { pair_ = std::make_unique<PostgresPair>(); }
  static void TearDownTestSuite() { pair_.reset(); }
  void SetUp() override { pair().set_synchronous_standby(""); }

  static PostgresPair& pair() { return *pair_; }
  BoxOptions strict() { return {.schema = schema_, .require_synchronous = true}; }
  std::string messages() {
    return PgClient{pair().primary()}.value("select count(*) from " + schema_ + ".inbox_message");
  }

  template <class F>
  std::optional<Kind> error_of(const F& body) {
    try {
      body();
    } catch (const DatabaseError& error) {
      words_ = error.what();
      return error.kind();
    }
    return {};
  }
  template <class F>
  bool refuses(const F& body) {
    return error_of(body) == Kind::not_synchronous;
  }

 private:
  static std::unique_ptr<PostgresPair> pair_;

 protected:
  const std::string schema_ = unique_name();
  std::string words_;
  const OwnerToken owner_{Uuid::parse("00000000-0000-4000-8000-00000000000a")};
  LogBook log_;
  Environment environment_ = {.log = [this](const LogEvent& event) { log_.write(event); }};
  Database database_{pair().primary(), {}, environment_};
  Inbox lenient_{database_, {.schema = schema_, .deploy_schema = true}};
  Inbox inbox_{database_, strict()};
};

std::unique_ptr<PostgresPair> RequireSynchronous::pair_;

TEST_P(RequireSynchronous, takes_nothing_in_while_no_standby_is_waited_for) {
  const HandlerName mail{HandlerKey{"mail"}};
  const std::vector<Arrival> two{an_arrival("a"), an_arrival("b")};
  EXPECT_TRUE(refuses([&] { inbox_.accept(an_arrival()); }));
  EXPECT_NE(words_.find("synchronous_standby_names is empty"), std::string::npos) << words_;
  EXPECT_NE(words_.find("require_synchronous"), std::string::npos) << words_;
  EXPECT_TRUE(refuses([&] { inbox_.accept(an_arrival(), {&mail, 1}); }));
  EXPECT_TRUE(refuses([&] { inbox_.accept(two); }));
  EXPECT_TRUE(refuses([&] { (void)inbox_.accept_and_claim(an_arrival(), owner_, 30s); }));
  EXPECT_TRUE(refuses([&] { (void)inbox_.already_processed(a_key()); }));
  EXPECT_TRUE(refuses([&] { inbox_.mark_processed(an_arrival()); }));
  EXPECT_TRUE(refuses([&] { inbox_.mark_processed(a_key()); }));
  EXPECT_TRUE(refuses([&] { inbox_.mark_dead(a_key()); }));
  EXPECT_TRUE(refuses([&] { (void)inbox_.mark_processing(a_key()); }));
  EXPECT_TRUE(refuses([&] { (void)inbox_.try_claim(a_key(), Topic{"t"}); }));
  EXPECT_EQ(messages(), "0") << "what is refused is not written";
  EXPECT_EQ(lenient_.accept(an_arrival()).state, Acceptance::accepted);
  EXPECT_TRUE(refuses([&] { inbox_.accept(an_arrival()); })) << "nor is a duplicate confirmed";
}

TEST_P(RequireSynchronous, takes_in_what_the_standby_has_and_notices_every_reload) {
  EXPECT_TRUE(refuses([&] { inbox_.accept(an_arrival("1")); }));
  pair().set_synchronous_standby("standby");
  // An open connection learns of the reload when its server process does.
  while (refuses([&] { inbox_.accept(an_arrival("1")); })) {
  }
  EXPECT_EQ(inbox_.state(a_key("1")), MessageState::open);
  PgClient standby{pair().standby()};
  EXPECT_NE(standby.value("select pg_last_wal_receive_lsn()"), "null");
  pair().set_synchronous_standby("");
  int more = 0;
  while (!refuses([&] { inbox_.accept(an_arrival("more" + std::to_string(more))); })) ++more;
  EXPECT_EQ(messages(), std::to_string(1 + more));
}

TEST_P(RequireSynchronous, refuses_a_session_that_waits_only_for_its_own_disk) {
  pair().set_synchronous_standby("standby");
  for (const std::string value : {"off", "local"}) {
    Database hasty{pair().primary() + "?options=-c%20synchronous_commit%3D" + value};
    Inbox inbox{hasty, strict()};
    EXPECT_TRUE(refuses([&] { inbox.accept(an_arrival()); })) << value;
    EXPECT_NE(words_.find("synchronous_commit is " + value), std::string::npos) << words_;
  }
  for (const std::string value : {"on", "remote_write", "remote_apply"}) {
    Database patient{pair().primary() + "?options=-c%20synchronous_commit%3D" + value};
    Inbox inbox{patient, strict()};
    EXPECT_EQ(inbox.accept(an_arrival(value)).state, Acceptance::accepted) << value;
  }
}

TEST_P(RequireSynchronous, refuses_a_callers_transaction_that_does_not_wait) {
  pair().set_synchronous_standby("standby");
  PgClient caller{pair().primary()};
  caller.begin();
  caller.run("set local synchronous_commit = off");
  EXPECT_TRUE(refuses([&] { inbox_.accept(caller.session(), an_arrival()); }));
  caller.rollback();
  caller.begin();
  EXPECT_EQ(inbox_.accept(caller.session(), an_arrival()).state, Acceptance::accepted);
  caller.commit();
  EXPECT_EQ(inbox_.state(a_key()), MessageState::open);
  EXPECT_TRUE(refuses([&] {
    database_.in_transaction([&](Session& session) {
      session.execute("set local synchronous_commit = local");
      inbox_.accept(session, an_arrival("other"));
    });
  }));
  EXPECT_EQ(messages(), "1");
}

TEST_P(RequireSynchronous, does_not_take_a_wait_that_was_given_up_for_a_commit) {
  pair().set_synchronous_standby("standby");
  while (refuses([&] { inbox_.accept(an_arrival("first")); })) {
  }
  pair().cut_off_standby();
  Call call([&] { return error_of([&] { inbox_.accept(an_arrival("second")); }); });
  PgClient watcher{pair().primary()};
  while (watcher.value("select count(pg_cancel_backend(pid)) from pg_stat_activity "
                       "where wait_event = 'SyncRep'") == "0") {
    ASSERT_FALSE(call.finished());
  }
  EXPECT_EQ(call.get(), Kind::commit_in_doubt);
  EXPECT_NE(words_.find("standby"), std::string::npos) << words_;
  pair().reconnect_standby();
  EXPECT_EQ(inbox_.accept(an_arrival("second")).state, Acceptance::duplicate_open)
      << "once it streams again, both are there";
}

TEST_P(RequireSynchronous, costs_no_round_trip_on_connections_of_our_own) {
  pair().set_synchronous_standby("standby");
  PostgresWire wire{pair().primary()};
  Database database{wire.address(), {.pool_size = 1}, environment_};
  Inbox strict_inbox{database, strict()};
  Inbox lenient{database, {.schema = schema_}};
  const auto trips_of = [&](Inbox& inbox, const std::string& id) {
    const int before = wire.round_trips();
    inbox.accept(an_arrival(id));
    return wire.round_trips() - before;
  };
  EXPECT_EQ(trips_of(strict_inbox, "1"), 1);
  EXPECT_EQ(trips_of(strict_inbox, "2"), 1) << "prepared by now";
  EXPECT_EQ(trips_of(strict_inbox, "2"), trips_of(lenient, "2")) << "a duplicate";
  const int before = wire.round_trips();
  EXPECT_EQ(strict_inbox.claim(owner_).size(), 2u);
  EXPECT_EQ(wire.round_trips() - before, 1);
}

TEST_P(RequireSynchronous, is_reported_by_the_doctor) {
  const auto replication = [&](const std::vector<Finding>& findings) {
    for (const Finding& one : findings) {
      if (one.check == "replication") return one;
    }
    return Finding{"none", Finding::Level::warning, ""};
  };
  Finding found = replication(examine_database(database_));
  EXPECT_EQ(found.level, Finding::Level::ok);
  EXPECT_EQ(found.found,
            "synchronous_standby_names is empty, synchronous_commit is on: commits do not wait "
            "for a standby, so a failover can undo them");
  found = replication(examine_box(database_, BoxKind::inbox, strict()));
  EXPECT_EQ(found.level, Finding::Level::error);
  EXPECT_NE(found.fix.find("synchronous_standby_names"), std::string::npos);
  EXPECT_EQ(replication(examine_box(database_, BoxKind::inbox, {.schema = schema_})).check, "none");

  pair().set_synchronous_standby("standby");
  Database again{pair().primary()};
  found = replication(examine_database(again));
  EXPECT_EQ(found.found,
            "synchronous_standby_names is 'standby', synchronous_commit is on: commits wait for "
            "a standby");
  EXPECT_EQ(replication(examine_box(again, BoxKind::inbox, strict())).level, Finding::Level::ok);
  again.in_transaction([&](Session& session) {
    session.execute("set local synchronous_commit = local");
    EXPECT_NE(replication(examine_session(session)).found.find("do not wait for a standby"),
              std::string::npos);
  });
}

TWINBOX_ON_BACKENDS(RequireSynchronous, Backend::postgres);

class RequireSynchronousElsewhere : public BoxTest {};

TEST_P(RequireSynchronousElsewhere, is_refused_where_nothing_can_be_said_about_a_standby) {
  BoxOptions wanted = options();
  wanted.require_synchronous = true;
  EXPECT_THROW(Outbox(database(), wanted), std::invalid_argument);
  if (on_postgres()) return;
  EXPECT_THROW(Inbox(database(), wanted), std::invalid_argument);
}

TWINBOX_ON_EVERY_BACKEND(RequireSynchronousElsewhere);

}  // namespace
}  // namespace twinbox::test
