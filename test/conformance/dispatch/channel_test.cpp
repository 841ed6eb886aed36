// Channels: what they bind together, what is refused at start-up, what becomes of an arrival.
#include "support/inbox_test.hpp"
#include <twinbox/channel.hpp>

namespace twinbox::test {
namespace {

using Strings = std::vector<std::string>;

Arrival an_order(std::string id = "evt_1", std::string topic = "order.placed") {
  return an_arrival(std::move(id), "orders", std::move(topic));
}

const auto nothing = [](const Message&) {};

class OnChannels : public InboxTest {
 protected:
  /// A second store, with tables of its own.
  Inbox& other_store() {
    if (!other_) {
      BoxOptions named = options();
      named.table = "other";
      other_ = std::make_unique<Inbox>(database(), named);
    }
    return *other_;
  }
  /// A handler that notes its name.
  auto notes(const std::string& name) {
    return
        [this, name](const Message& message) { called.push_back(name + ":" + message.id.str()); };
  }
  static std::string refusal(Channels& channels) {
    try {
      channels.check();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }
  Strings keys_in(Inbox& store, const MessageKey& key) {
    Strings keys;
    const MessageDetail found = Admin{store}.get(key).value();
    for (const DeliveryView& delivery : found.deliveries) {
      keys.push_back(delivery.key.handler.str());
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  Strings called;

 private:
  std::unique_ptr<Inbox> other_;
};

void expect_text(const std::string& text, const Strings& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
  }
}

TEST_P(OnChannels, PHD_22_bind_a_source_topics_handlers_and_a_store_that_others_may_share) {
  Channels channels;
  channels.add("orders.events")
      .from(Source{"orders"})
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"fulfilment"}, notes("fulfilment"))
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, notes("mail"))
      .on(Topic{"order.cancelled"}, HandlerKey{"refund"}, notes("refund"));
  channels.add("payments")
      .from(Source{"stripe"})
      .uses(inbox())
      .on(Topic{"payment.received"}, HandlerKey{"ledger"}, notes("ledger"));
  channels.check();
  EXPECT_EQ(channels.accept("orders.events", an_order()).state, Acceptance::accepted);
  EXPECT_EQ(channels.accept("orders.events", an_order()).state, Acceptance::duplicate_open);
  channels.accept("orders.events", an_order("evt_2", "order.cancelled"));
  channels.accept("payments", an_arrival("evt_3"));
  EXPECT_EQ(channels.inboxes(), std::vector<Inbox*>{&inbox()});
  EXPECT_EQ(Dispatcher(inbox(), channels.handlers_of(inbox())).drain(), 4u);
  std::sort(called.begin(), called.end());
  EXPECT_EQ(called, (Strings{"fulfilment:evt_1", "ledger:evt_3", "mail:evt_1", "refund:evt_2"}));
}

TEST_P(OnChannels, take_only_what_they_are_bound_to) {
  Channels channels;
  channels.add("orders.events")
      .from(Source{"orders"})
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing);
  channels.check();
  const auto refused = [&](std::string_view name, const Arrival& arrival, const Strings& parts) {
    try {
      channels.accept(name, arrival);
      ADD_FAILURE() << "accepted";
    } catch (const std::invalid_argument& error) {
      expect_text(error.what(), parts);
    }
  };
  refused("orders.events", an_order("evt_1", "order.lost"), {"orders.events", "order.lost"});
  refused("orders.events", an_arrival("evt_1", "stripe", "order.placed"),
          {"orders.events", "stripe", "orders"});
  refused("orders", an_order(), {"'orders'"});
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(OnChannels, PHD_02_message_and_deliveries_are_one_transaction) {
  Channels channels;
  channels.add("orders.events")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing)
      .on(Topic{"order.placed"}, HandlerKey{"zeal"}, nothing);
  channels.check();
  if (!on_sqlite()) {
    write("alter table {schema}inbox_work add constraint refuse check (handler <> 'zeal')");
  } else {
    write(
        "create trigger refuse before insert on inbox_work when new.handler = 'zeal' "
        "begin select raise(abort, 'refused'); end");
  }
  EXPECT_THROW(channels.accept("orders.events", an_order()), DatabaseError);
  EXPECT_EQ(count_messages(), "0");
  EXPECT_EQ(read("select count(*) from {schema}inbox_work"), "0");
  write(on_sqlite() ? "drop trigger refuse"
                    : "alter table {schema}inbox_work drop constraint refuse");
  EXPECT_EQ(channels.accept("orders.events", an_order()).state, Acceptance::accepted);
  // When accept has returned, the source may forget the message.
  EXPECT_EQ(keys_in(inbox(), an_order().key()), (Strings{"mail", "zeal"}));
}

TEST_P(OnChannels, PHD_02_accept_may_be_part_of_the_callers_transaction) {
  Channels channels;
  channels.add("orders.events")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing)
      .on(Topic{"order.placed"}, HandlerKey{"stock"}, nothing);
  channels.check();
  const auto accept_and = [&](bool fails) {
    database().in_transaction([&](Session& session) {
      EXPECT_EQ(channels.accept(session, "orders.events", an_order()).state, Acceptance::accepted);
      if (fails) throw std::runtime_error("card declined");
    });
  };
  EXPECT_THROW(accept_and(true), std::runtime_error);
  EXPECT_EQ(count_messages(), "0");
  accept_and(false);
  EXPECT_EQ(keys_in(inbox(), an_order().key()), (Strings{"mail", "stock"}));
}

TEST_P(OnChannels, PHD_17_a_handler_without_a_key_is_refused_where_there_is_an_inbox) {
  Channels channels;
  channels.add("orders.events").uses(inbox()).on(Topic{"order.placed"}, nothing);
  expect_text(refusal(channels), {"'orders.events'", "'order.placed'", "no key"});
  EXPECT_THROW(channels.accept("orders.events", an_order()), UsageError);
  EXPECT_THROW((void)channels.handlers_of(inbox()), UsageError);
}

TEST_P(OnChannels, PHD_17_a_handler_with_a_key_is_refused_where_there_is_no_inbox) {
  Channels channels;
  channels.add("screens").allow_without_inbox().on(Topic{"order.placed"}, HandlerKey{"mail"},
                                                   nothing);
  expect_text(refusal(channels), {"'screens'", "'order.placed'", "key 'mail'", "uses()"});
}

TEST_P(OnChannels, PHD_18_keys_are_unique_over_all_channels_and_stores) {
  Channels channels;
  channels.add("here").uses(inbox()).on(Topic{"a"}, HandlerKey{"mail"}, nothing);
  channels.add("there").uses(other_store()).on(Topic{"b"}, HandlerKey{"mail"}, nothing);
  expect_text(refusal(channels), {"'mail'", "'here'", "'there'", "unique"});
}

TEST_P(OnChannels, PHD_19_legacy_keys_are_unique_too) {
  Channels channels;
  channels.add("here").uses(inbox()).on(Topic{"a"}, HandlerKey{"new"}, nothing,
                                        {.legacy_keys = {HandlerKey{"old"}, HandlerKey{"older"}}});
  channels.add("taken").uses(inbox()).on(Topic{"b"}, HandlerKey{"old"}, nothing);
  channels.add("twice")
      .uses(other_store())
      .on(Topic{"c"}, HandlerKey{"newer"}, nothing, {.legacy_keys = {HandlerKey{"older"}}});
  channels.add("self").uses(inbox()).on(Topic{"d"}, HandlerKey{"same"}, nothing,
                                        {.legacy_keys = {HandlerKey{"same"}}});
  const std::string text = refusal(channels);
  expect_text(text, {"'old': used", "'older': used", "'same': used", "legacy"});
}

TEST_P(OnChannels, PHD_19_a_renamed_handler_does_what_waits_and_gets_new_work_under_its_new_key) {
  Channels before;
  before.add("orders.events").uses(inbox()).on(Topic{"order.placed"}, HandlerKey{"v1"}, nothing);
  before.check();
  before.accept("orders.events", an_order());

  Channels after;
  after.add("orders.events")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"v2"}, notes("v2"),
          {.legacy_keys = {HandlerKey{"v1"}, HandlerKey{"v0"}}});
  after.check();
  EXPECT_TRUE(log().events("unclaimed_key").empty());
  after.accept("orders.events", an_order());
  after.accept("orders.events", an_order("evt_2"));
  EXPECT_EQ(keys_in(inbox(), an_order().key()), Strings{"v1"});
  EXPECT_EQ(keys_in(inbox(), an_order("evt_2").key()), Strings{"v2"});
  Dispatcher(inbox(), after.handlers_of(inbox())).drain();
  EXPECT_EQ(called, (Strings{"v2:evt_1", "v2:evt_2"}));
}

TEST_P(OnChannels, PHD_20_a_policy_says_what_a_channel_without_inbox_means) {
  const auto describe = [](Channels& channels) {
    channels.add("bare").on(Topic{"a"}, nothing);
    channels.add("meant").allow_without_inbox().on(Topic{"a"}, nothing);
  };
  Channels silent{{}, environment()};
  describe(silent);
  silent.check();
  EXPECT_TRUE(log().events("channel_without_inbox").empty());

  Channels warned{{.without_inbox = WithoutInbox::warn}, environment()};
  describe(warned);
  warned.check();
  const auto warnings = log().events("channel_without_inbox");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].level, LogLevel::warning);
  EXPECT_EQ(warnings[0].field("channel"), "bare");

  Channels refused{{.without_inbox = WithoutInbox::fail}, environment()};
  describe(refused);
  const std::string text = refusal(refused);
  expect_text(text, {"'bare'", "no inbox", "allow_without_inbox"});
  EXPECT_EQ(text.find("'meant'"), std::string::npos) << text;
}

TEST_P(OnChannels, check_tells_of_every_problem_at_once) {
  Channels channels{{.without_inbox = WithoutInbox::fail}};
  channels.add("empty").uses(inbox());
  channels.add("keyless").uses(inbox()).on(Topic{"a"}, nothing);
  channels.add("bare").on(Topic{"a"}, HandlerKey{"k"}, [](Session&, const Message&) {});
  channels.add("clash").uses(inbox()).on(Topic{"a"}, HandlerKey{"k"}, nothing);
  expect_text(refusal(channels), {"'empty': has no handlers", "'keyless'", "'bare': has no inbox",
                                  "'bare': handler for topic 'a' is transactional", "key 'k'"});
}

TEST_P(OnChannels, are_described_first_and_used_after_the_check) {
  Channels channels;
  Channel& channel = channels.add("a").uses(inbox()).on(Topic{"a"}, HandlerKey{"k"}, nothing);
  EXPECT_THROW(channels.add("a"), UsageError);
  EXPECT_THROW(channels.add(" "), std::invalid_argument);
  EXPECT_THROW(channels.accept("a", an_arrival()), UsageError);
  channels.check();
  EXPECT_THROW(channel.on(Topic{"b"}, HandlerKey{"l"}, nothing), UsageError);
  EXPECT_THROW(channels.add("b"), UsageError);
  EXPECT_NO_THROW(channels.check());
}

TEST_P(OnChannels, PHD_23_each_store_has_its_own_dispatcher_and_rows) {
  Channels channels;
  channels.add("orders.inbox")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"fulfilment"}, notes("fulfilment"));
  channels.add("shipping.inbox")
      .uses(other_store())
      .on(Topic{"order.placed"}, HandlerKey{"shipment"}, notes("shipment"));
  channels.check();
  for (const auto& [channel, accepted] : channels.accept(an_order())) {
    EXPECT_EQ(accepted.state, Acceptance::accepted) << channel;
  }
  EXPECT_EQ(keys_in(inbox(), an_order().key()), Strings{"fulfilment"});
  EXPECT_EQ(keys_in(other_store(), an_order().key()), Strings{"shipment"});
  EXPECT_EQ(channels.handlers_of(inbox()).keys(), std::vector{HandlerKey{"fulfilment"}});
  Dispatcher orders{inbox(), channels.handlers_of(inbox()), {.batch = 1}};
  Dispatcher shipping{other_store(), channels.handlers_of(other_store()), per_handler_dispatcher()};
  EXPECT_NE(orders.owner(), shipping.owner());
  EXPECT_EQ(orders.drain(), 1u);
  EXPECT_EQ(called, Strings{"fulfilment:evt_1"});
  EXPECT_EQ(shipping.drain(), 1u);
  EXPECT_EQ(called, (Strings{"fulfilment:evt_1", "shipment:evt_1"}));
}

TEST_P(OnChannels, PHD_23_two_objects_for_the_same_tables_are_refused) {
  Inbox again{database(), options()};
  Channels channels;
  channels.add("a").uses(inbox()).on(Topic{"a"}, HandlerKey{"k"}, nothing);
  channels.add("b").uses(again).on(Topic{"a"}, HandlerKey{"l"}, nothing);
  expect_text(refusal(channels), {"test store", "'inbox'", "share"});

  // Another Database object may be the same database, unless it is in memory.
  Database same{test_store().address(), {}, environment()};
  Inbox third{same, options()};
  Channels others;
  others.add("a").uses(inbox()).on(Topic{"a"}, HandlerKey{"k"}, nothing);
  others.add("b").uses(third).on(Topic{"a"}, HandlerKey{"l"}, nothing);
  if (GetParam() == Backend::sqlite_memory) {
    EXPECT_NO_THROW(others.check());
  } else {
    expect_text(refusal(others), {"two Inbox objects"});
  }
}

TEST_P(OnChannels, have_no_handlers_for_an_inbox_that_none_of_them_uses) {
  Channels channels;
  channels.add("a").uses(inbox()).on(Topic{"a"}, HandlerKey{"k"}, nothing);
  channels.check();
  Inbox again{database(), options()};
  EXPECT_THROW((void)channels.handlers_of(again), UsageError);
  EXPECT_THROW((void)channels.handlers_of(other_store()), UsageError);
}

TEST_P(OnChannels, PHD_24_handlers_without_inbox_live_beside_on_a_channel_of_their_own) {
  Channels channels{{.without_inbox = WithoutInbox::fail}, environment()};
  channels.add("durable").uses(inbox()).on(Topic{"order.placed"}, HandlerKey{"mail"},
                                           notes("mail"));
  channels.add("legacy")
      .allow_without_inbox()
      .on(Topic{"order.placed"}, [](const Message&) { throw std::runtime_error("no screen"); })
      .on(Topic{"order.placed"}, notes("screen"))
      .on(Topic{"order.placed"}, [](const Message&) { return Outcome::retry("busy"); })
      .on(Topic{"order.lost"}, notes("lost"));
  channels.check();
  const auto delivered = channels.accept(an_order());
  ASSERT_EQ(delivered.size(), 2u);
  EXPECT_EQ(called, Strings{"screen:evt_1"});
  const auto errors = log().events("handler_error");
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].field("error"), "no screen");
  EXPECT_EQ(errors[0].field("channel"), "legacy");
  EXPECT_EQ(errors[1].field("error"), "busy");
  EXPECT_EQ(count_messages(), "1");
  EXPECT_EQ(Dispatcher(inbox(), channels.handlers_of(inbox())).drain(), 1u);
  EXPECT_EQ(called, (Strings{"screen:evt_1", "mail:evt_1"}));
  channels.accept("legacy", an_order());
  EXPECT_EQ(called.back(), "screen:evt_1");
  database().in_transaction([&](Session& session) {
    EXPECT_THROW(channels.accept(session, "legacy", an_order()), UsageError);
  });
}

TEST_P(OnChannels, that_share_a_store_take_an_arrival_in_one_transaction) {
  Channels channels;
  channels.add("a").uses(inbox()).on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing);
  channels.add("b")
      .from(Source{"orders"})
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"stock"}, nothing);
  channels.add("c")
      .from(Source{"stripe"})
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"ledger"}, nothing);
  channels.check();
  const auto delivered = channels.accept(an_order());
  ASSERT_EQ(delivered.size(), 2u);
  EXPECT_EQ(delivered[0].channel, "a");
  EXPECT_EQ(delivered[1].channel, "b");
  EXPECT_EQ(delivered[1].accepted.state, Acceptance::accepted);
  EXPECT_EQ(keys_in(inbox(), an_order().key()), (Strings{"mail", "stock"}));
  try {
    channels.accept(an_order("evt_2", "order.lost"));
    ADD_FAILURE() << "accepted";
  } catch (const std::invalid_argument& error) {
    expect_text(error.what(), {"order.lost", "orders"});
  }
}

TEST_P(OnChannels, PHD_31_keep_what_the_transport_said_and_when_it_came_first) {
  Channels channels;
  channels.add("orders.events")
      .over("rabbitmq \"eu\"")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing);
  channels.check();
  const Instant first = clock().now();
  Arrival arrival = an_order();
  arrival.payload = payload(std::string_view{"bytes \0\xff", 8});
  arrival.extras.content_type = "application/octet-stream";
  arrival.extras.headers = R"( {"routing_key":"orders.eu","priority":5} )";
  channels.accept("orders.events", arrival);
  clock().advance(1h);
  channels.accept("orders.events", arrival);
  const MessageDetail kept = detail(arrival.key());
  EXPECT_EQ(kept.payload, arrival.payload);
  EXPECT_EQ(kept.message.content_type, arrival.extras.content_type);
  EXPECT_EQ(kept.headers,
            R"({"transport":"rabbitmq \"eu\"","routing_key":"orders.eu","priority":5} )");
  EXPECT_EQ(kept.message.created_at, first);
  EXPECT_EQ(kept.message.last_seen_at, first + 1h);

  const auto headers = [&](const std::string& id, std::optional<std::string> given) {
    Arrival other = an_order(id);
    other.extras.headers = std::move(given);
    channels.accept("orders.events", other);
    return detail(other.key()).headers.value();
  };
  EXPECT_EQ(headers("none", {}), R"({"transport":"rabbitmq \"eu\""})");
  EXPECT_EQ(headers("empty", "{ }"), R"({"transport":"rabbitmq \"eu\"" })");
  EXPECT_EQ(headers("own", R"({"transport":"http"})"), R"({"transport":"http"})");
  Arrival bad = an_order("bad");
  bad.extras.headers = "[]";
  EXPECT_THROW(channels.accept("orders.events", bad), std::invalid_argument);
}

TEST_P(OnChannels, PHD_36_start_up_warns_of_open_work_under_keys_that_nobody_claims) {
  const HandlerName names[] = {{HandlerKey{"gone"}}, {HandlerKey{"kept"}}, {HandlerKey{"was"}}};
  inbox().accept(an_order(), names);
  inbox().accept(an_arrival("by topic"));
  const HandlerName finished[] = {{HandlerKey{"finished"}}};
  const auto claimed = inbox().accept_and_claim(an_order("evt_2"), worker_a, 30s, finished);
  ASSERT_EQ(inbox().ack(worker_a, claimed.messages), 1u);

  Channels channels;
  channels.add("orders.events")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"kept"}, nothing, {.legacy_keys = {HandlerKey{"was"}}});
  channels.check();
  const auto warnings = log().events("unclaimed_key");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].level, LogLevel::warning);
  EXPECT_EQ(warnings[0].field("handler"), "gone");
  EXPECT_EQ(warnings[0].field("store"), "test store");
  EXPECT_EQ(unclaimed_keys(inbox(), {}),
            (std::vector{HandlerKey{"gone"}, HandlerKey{"kept"}, HandlerKey{"was"}}));
}

TEST_P(OnChannels, PHD_36_a_long_backlog_is_looked_at_from_both_ends_only) {
  inbox();
  const std::string rows =
      on_postgres()    ? "select i from generate_series(1, 20003) s(i)"
      : on_sqlserver() ? "select top (20003) row_number() over (order by (select null)) as i from "
                         "sys.all_columns a cross join sys.all_columns b"
                       : "with recursive s(i) as (select 1 union all select i + 1 from s "
                         "where i < 20003) select i from s";
  write(
      "insert into {schema}inbox_work (number, visible_at, handler) "
      "select i, " +
      std::string{on_postgres()    ? "now()"
                  : on_sqlserver() ? "sysutcdatetime()"
                                   : "0"} +
      ", case i when 1 then 'oldest' when 10002 then 'middle' when 20003 then 'newest' "
      "else 'mail' end from (" +
      rows + ") numbers");
  ::twinbox::Handlers handlers;
  handlers.on_key(HandlerKey{"mail"}, nothing);
  EXPECT_EQ(unclaimed_keys(inbox(), handlers),
            (std::vector{HandlerKey{"newest"}, HandlerKey{"oldest"}}));
}

TWINBOX_ON_EVERY_BACKEND(OnChannels);

}  // namespace
}  // namespace twinbox::test
