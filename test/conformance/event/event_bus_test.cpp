// Events on their way from a publisher's transaction to handlers, by name and version.
#include "support/inbox_test.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/testing.hpp>

namespace shop {

struct OrderPlaced {
  int number = 0;

  static twinbox::EventName event_name() { return {"order.placed", 1}; }
  [[nodiscard]] std::string to_payload() const {
    return R"({"number":)" + std::to_string(number) + R"(,"note":"~payload~"})";
  }
  static OrderPlaced from_payload(std::string_view payload) {
    constexpr std::string_view begin = R"({"number":)";
    if (!payload.starts_with(begin)) throw std::invalid_argument("no order");
    return {std::stoi(std::string{payload.substr(begin.size())})};
  }
};

/// Not JSON.
struct Ping {
  static twinbox::EventName event_name() { return {"ping", 3}; }
};

}  // namespace shop

template <>
struct twinbox::Encode<shop::Ping> {
  static std::string to(const shop::Ping&) { return "\xFFping"; }
  static constexpr std::string_view content_type = "application/octet-stream";
};

namespace twinbox::test {
namespace {

using Strings = std::vector<std::string>;

static_assert(Publishable<shop::OrderPlaced> && Publishable<shop::Ping> && !Publishable<int>);

CloudEvent an_event(std::string id = "evt-1", std::string type = "order.placed.v1") {
  CloudEvent event{.id = std::move(id), .source = "/shop", .type = std::move(type)};
  event.set_data(R"({"secret":"~payload~"})");
  return event;
}

class Bus : public InboxTest {
 protected:
  void SetUp() override {
    outbox();
    write("create table {schema}purchase (amount integer)");
  }
  std::string outbox_rows() { return read("select count(*) from {schema}outbox_message"); }
  std::string purchases() { return read("select count(*) from {schema}purchase"); }
  void buy(Session& session) {
    session.execute(in_schema("insert into {schema}purchase values (42)"));
  }
  Message only_message() {
    const auto claimed = outbox().claim(worker_a, 30s, 10);
    EXPECT_EQ(claimed.size(), 1u);
    return claimed.at(0);
  }
};

TEST_P(Bus, EVB_01_what_is_stored_is_the_serialised_envelope) {
  EventBus bus{outbox()};
  CloudEvent event = an_event();
  event.subject = "order 7";
  event.time = Timestamp::parse("2030-01-15T10:00:00.123456+02:00");
  event.extensions = {{"partitionkey", "customer-7"},
                      {"correlationid", "story-1"},
                      {"expirytime", "2031-01-01T00:00:00Z"},
                      {"priority", 5}};
  EXPECT_EQ(bus.publish(event, {.properties = R"({"tenant":"north"})"}).str(), "evt-1");
  const Message message = only_message();
  EXPECT_EQ(message.payload, to_json(event));
  EXPECT_EQ(message.content_type, "application/cloudevents+json");
  EXPECT_EQ(message.topic.str(), "order.placed.v1");
  EXPECT_EQ(message.source.str(), "/shop");
  EXPECT_EQ(message.id.str(), "evt-1");
  EXPECT_EQ(message.partition_key->str(), "customer-7");
  EXPECT_EQ(message.correlation_id->str(), "story-1");
  EXPECT_EQ(message.expires_at, Timestamp::parse("2031-01-01T00:00:00Z")->instant());
  EXPECT_EQ(property_of(message, "tenant"), "north");
  EXPECT_EQ(event_of(message), event);
}

TEST_P(Bus, EVB_01_what_an_event_lacks_is_filled_in) {
  EventBus bus{outbox(), {.source = "/shop"}};
  const MessageId id = bus.publish(shop::OrderPlaced{7});
  const CloudEvent event = event_of(only_message());
  EXPECT_EQ(event.id, id.str());
  EXPECT_EQ(event.source, "/shop");
  EXPECT_EQ(event.type, "order.placed.v1");
  EXPECT_EQ(event.time->instant(), clock().now());
  EXPECT_EQ(event.datacontenttype, "application/json");
}

TEST_P(Bus, EVB_01_an_event_that_is_not_valid_is_refused_and_nothing_is_written) {
  EventBus bus{outbox()};
  EXPECT_THROW(bus.publish(shop::OrderPlaced{7}), EventError) << "there is no source";
  EXPECT_THROW(bus.publish(an_event(), {.properties = "[]"}), EventError);
  CloudEvent event = an_event();
  event.extensions.emplace("expirytime", "soon");
  EXPECT_THROW(bus.publish(event), EventError);
  event = an_event();
  event.source = "/" + std::string(255, 's');
  EXPECT_THROW(bus.publish(event), EventError);
  EXPECT_EQ(outbox_rows(), "0");
}

TEST_P(Bus, EVB_02_with_the_outbox_an_event_is_stored_in_the_callers_transaction_and_sent_later) {
  Strings sent;
  EventBus bus{outbox(), {.transport = [&](const CloudEvent& event) { sent.push_back(event.id); }}};
  Handlers handlers;
  handlers.add(Topic{"order.placed.v1"},
               event_handler([&](const CloudEvent& event) { sent.push_back(event.id); }));
  database().in_transaction([&](Session& session) {
    buy(session);
    bus.publish(session, an_event());
    EXPECT_TRUE(sent.empty());
  });
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(Dispatcher(outbox(), handlers).drain(), 1u);
  EXPECT_EQ(sent, (Strings{"evt-1"}));
}

TEST_P(Bus, EVB_02_without_the_outbox_an_event_is_sent_at_once_and_may_be_lost) {
  Strings sent;
  bool down = false;
  EventBus bus{outbox(), {.transport = [&](const CloudEvent& event) {
                 if (down) throw std::runtime_error("the broker does not answer");
                 sent.push_back(event.id);
               }}};
  try {
    database().in_transaction([&](Session& session) {
      buy(session);
      bus.publish(session, an_event(), {.use_outbox = false});
      EXPECT_EQ(sent, (Strings{"evt-1"})) << "before the commit";
      throw std::runtime_error("changed my mind");
    });
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(purchases(), "0");
  EXPECT_EQ(sent, (Strings{"evt-1"})) << "it cannot be taken back";
  down = true;
  EXPECT_THROW(bus.publish(an_event("evt-2"), {.use_outbox = false}), std::runtime_error);
  EXPECT_EQ(outbox_rows(), "0") << "nobody will try it again";
}

TEST_P(Bus, EVB_02_without_a_transport_there_is_no_direct_publish) {
  EventBus bus{outbox()};
  EXPECT_THROW(bus.publish(an_event(), {.use_outbox = false}), UsageError);
}

TEST_P(Bus, EVB_03_a_unit_of_work_commits_writes_and_events_together) {
  EventBus bus{outbox(), {.source = "/shop"}};
  bus.in_transaction([&](UnitOfWork& unit) {
    buy(unit.session());
    unit.publish(shop::OrderPlaced{1});
    unit.publish(an_event("evt-2"));
  });
  EXPECT_EQ(purchases(), "1");
  EXPECT_EQ(outbox_rows(), "2");
}

TEST_P(Bus, EVB_03_a_unit_of_work_that_fails_writes_neither) {
  Strings sent;
  EventBus bus{outbox(), {.transport = [&](const CloudEvent& event) { sent.push_back(event.id); }}};
  const auto fails = [&](UnitOfWork& unit) {
    buy(unit.session());
    unit.publish(an_event("evt-1"));
    unit.publish(an_event("evt-2"), {.use_outbox = false});
    throw std::runtime_error("changed my mind");
  };
  EXPECT_THROW(bus.in_transaction(fails), std::runtime_error);
  EXPECT_EQ(purchases(), "0");
  EXPECT_EQ(outbox_rows(), "0");
  EXPECT_TRUE(sent.empty());
}

TEST_P(Bus, EVB_03_a_unit_of_work_whose_commit_fails_writes_neither) {
  FaultPlan plan;
  Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Outbox box{store, options()};
  const auto count = [&](const std::string& table) {
    std::int64_t rows = -1;
    store.in_transaction([&](Session& session) {
      session.execute(in_schema("select count(*) from {schema}" + table), {},
                      [&](const Row& row) { rows = row.integer(0); });
    });
    return rows;
  };
  if (on_sqlite()) {  // what is in memory is another database's own
    store.in_transaction([&](Session& session) {
      session.execute("create table if not exists purchase (amount integer)");
    });
  }
  Strings sent;
  EventBus bus{box, {.transport = [&](const CloudEvent& event) { sent.push_back(event.id); }}};
  plan.fail_commit(DatabaseError::Kind::connection_lost);
  EXPECT_THROW(bus.in_transaction([&](UnitOfWork& unit) {
    buy(unit.session());
    unit.publish(an_event("evt-1"));
    unit.publish(an_event("evt-2"), {.use_outbox = false});
  }),
               DatabaseError);
  EXPECT_EQ(count("purchase"), 0);
  EXPECT_EQ(count("outbox_message"), 0);
  EXPECT_TRUE(sent.empty());
}

TEST_P(Bus, EVB_03_a_unit_of_work_over_the_callers_session_sends_directly_only_after_the_commit) {
  Strings sent;
  EventBus bus{outbox(), {.transport = [&](const CloudEvent& event) {
                 if (event.id == "evt-2") throw std::runtime_error("the broker does not answer");
                 sent.push_back(event.id);
               }}};
  std::optional<UnitOfWork> unit;
  database().in_transaction([&](Session& session) {
    unit.emplace(bus, session);
    buy(session);
    unit->publish(an_event("evt-1"));
    unit->publish(an_event("evt-2"), {.use_outbox = false});
    unit->publish(an_event("evt-3"), {.use_outbox = false});
  });
  EXPECT_TRUE(sent.empty());
  EXPECT_THROW(unit->committed(), std::runtime_error);
  EXPECT_EQ(sent, (Strings{"evt-3"})) << "one that fails does not hold up the others";
  unit->committed();
  EXPECT_EQ(sent, (Strings{"evt-3"})) << "and nothing is sent twice";
  EXPECT_EQ(outbox_rows(), "1");
}

TEST_P(Bus, EVB_15_handlers_are_found_by_name_and_version) {
  Strings handled;
  EventHandlers handlers;
  handlers.on({"order.placed", 1}, [&](const CloudEvent&) { handled.push_back("one"); })
      .on({"order.placed", 2}, [&](const CloudEvent&) { handled.push_back("two"); });
  EXPECT_NE(handlers.find({"order.placed", 2}), nullptr);
  EXPECT_EQ(handlers.find({"order.placed", 3}), nullptr);
  EXPECT_EQ(handlers.find({"order", 1}), nullptr);
  EXPECT_EQ(handlers.names(), (std::vector<EventName>{{"order.placed", 1}, {"order.placed", 2}}));

  EventBus bus{outbox()};
  bus.publish(an_event("evt-1", "order.placed.v2"));
  bus.publish(an_event("evt-2", "order.placed.v1"));
  Dispatcher{outbox(), handlers.handlers()}.drain();
  EXPECT_EQ(handled, (Strings{"two", "one"}));
}

TEST_P(Bus, EVB_15_a_second_handler_of_the_same_name_and_version_is_refused) {
  EventHandlers handlers;
  const auto nothing = [](const CloudEvent&) {};
  handlers.on({"order.placed", 1}, nothing);
  EXPECT_THROW(handlers.on({"order.placed", 1}, nothing), UsageError);
  EXPECT_THROW(handlers.on({"order.placed", 0}, nothing), EventError);
  EXPECT_THROW(handlers.on({"", 1}, nothing), EventError);
  handlers.on({"order.placed", 999'999'999}, nothing);
}

TEST_P(Bus, EVB_21_extra_properties_ride_along_and_are_readable_by_handlers) {
  std::optional<std::string> tenant;
  std::optional<std::string> limits;
  Handlers handlers;
  handlers.add(Topic{"order.placed.v1"},
               event_handler([&](const CloudEvent&, const Message& message) {
                 tenant = property_of(message, "tenant");
                 limits = property_of(message, "limits");
                 EXPECT_FALSE(property_of(message, "nothing"));
               }));
  EventBus bus{outbox()};
  bus.publish(an_event(), {.properties = R"({"tenant":"n\u00f6rd","limits":{"max":3}})"});
  Dispatcher{outbox(), handlers}.drain();
  EXPECT_EQ(tenant, "nörd");
  EXPECT_EQ(limits, R"({"max":3})");
}

TEST_P(Bus, EVB_22_takes_event_names_of_500_and_ids_of_256_characters) {
  EventBus bus{outbox()};
  EventHandlers handlers;
  Strings handled;
  const EventName longest{std::string(497, 'n'), 1};
  handlers.on(longest, [&](const CloudEvent& event) { handled.push_back(event.id); });
  bus.publish(an_event(std::string(256, 'i'), longest.type()));
  Dispatcher{outbox(), handlers.handlers()}.drain();
  EXPECT_EQ(handled, (Strings{std::string(256, 'i')}));
  EXPECT_THROW(bus.publish(an_event(std::string(257, 'i'))), EventError);
  EXPECT_THROW(bus.publish(an_event("1", std::string(501, 'n'))), EventError);
  EXPECT_THROW(static_cast<void>(EventName{std::string(498, 'n'), 1}.type()), EventError);
}

TEST_P(Bus, EVB_26_events_are_typed_and_json_by_default) {
  std::vector<int> numbers;
  EventHandlers handlers;
  handlers.on<shop::OrderPlaced>(
      {"order.placed", 1},
      [&](const shop::OrderPlaced& order, const Message&) { numbers.push_back(order.number); });
  EventBus bus{outbox(), {.source = "/shop"}};
  database().in_transaction([&](Session& session) { bus.publish(session, shop::OrderPlaced{7}); });
  bus.publish(shop::Ping{});
  Dispatcher{outbox(), handlers.handlers(), {.no_handler = NoHandler::complete}}.drain();
  EXPECT_EQ(numbers, (std::vector<int>{7}));
}

TEST_P(Bus, EVB_26_content_that_cannot_be_read_is_dead_as_malformed) {
  EventHandlers handlers;
  handlers.on<shop::OrderPlaced>({"order.placed", 1},
                                 [&](const shop::OrderPlaced&) { FAIL() << "called"; });
  handlers.on({"broken", 1}, [&](const CloudEvent&) { FAIL() << "called"; });
  EventBus{outbox()}.publish(an_event());
  NewMessage broken{.topic = Topic{"broken.v1"}, .payload = "{~payload~"};
  broken.extras.content_type = event_content_type;
  outbox().enqueue(broken);
  Dispatcher{outbox(), handlers.handlers()}.drain();
  EXPECT_EQ(read("select count(*) from {schema}outbox_outcome where reason = 'malformed'"), "2");
}

TEST_P(Bus, EVB_26_the_serialiser_can_be_replaced) {
  // The JSON format, written backwards.
  const auto turn = [](std::string text) { return std::string{text.rbegin(), text.rend()}; };
  EventHandlerOptions handling;
  handling.format = {
      "application/x-turned", [=](const CloudEvent& event) { return turn(to_json(event)); },
      [=](std::string_view text) { return event_from_json(turn(std::string{text})); }};
  EventBus bus{outbox(), {.format = handling.format}};
  bus.publish(an_event());
  std::optional<CloudEvent> handled;
  EventHandlers handlers{handling};
  handlers.on({"order.placed", 1}, [&](const CloudEvent& event, const Message& message) {
    handled = event;
    EXPECT_EQ(message.content_type, "application/x-turned");
    EXPECT_EQ(message.payload, turn(to_json(event)));
  });
  Dispatcher{outbox(), handlers.handlers()}.drain();
  ASSERT_TRUE(handled);
  EXPECT_EQ(handled->data, an_event().data);
}

TEST_P(Bus, EVB_28_a_crash_before_the_mark_sends_again_with_the_same_event_id) {
  FaultPlan plan;
  Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Outbox box{store, options()};
  EventBus{box}.publish(an_event());
  std::vector<Acceptance> answers;
  Strings ids;
  Handlers handlers;
  handlers.add(Topic{"order.placed.v1"}, event_handler([&](const CloudEvent& event) {
                 ids.push_back(event.id);
                 answers.push_back(inbox().accept(to_arrival(event)).state);
                 if (ids.size() == 1) plan.lose_commit_reply(1, false);
               }));
  try {
    Dispatcher{box, handlers}.step();
  } catch (const DatabaseError&) {
  }
  clock().advance(default_lease);
  EXPECT_EQ(Dispatcher(box, handlers).drain(), 1u);
  EXPECT_EQ(ids, (Strings{"evt-1", "evt-1"}));
  EXPECT_EQ(answers, (std::vector{Acceptance::accepted, Acceptance::duplicate_open}));
}

TEST_P(Bus, a_transactional_handler_of_events_writes_where_the_event_ends) {
  EventHandlers handlers;
  handlers.on({"order.placed", 1}, [&](Session& session, const CloudEvent&) { buy(session); });
  EventBus{outbox()}.publish(an_event());
  EXPECT_EQ(handlers.find({"order.placed", 1})->guarantee(), Guarantee::transactional);
  Dispatcher{outbox(), handlers.handlers()}.drain();
  EXPECT_EQ(purchases(), "1");
}

TEST_P(Bus, an_event_is_not_handled_before_it_is_due) {
  EventHandlers handlers;
  int handled = 0;
  handlers.on({"order.placed", 1}, [&](const CloudEvent&) { ++handled; });
  EventBus{outbox()}.publish(an_event(), {.due_at = clock().now() + 1h});
  Dispatcher dispatcher{outbox(), handlers.handlers()};
  dispatcher.drain();
  EXPECT_EQ(handled, 0);
  clock().advance(1h);
  dispatcher.drain();
  EXPECT_EQ(handled, 1);
}

TWINBOX_ON_EVERY_BACKEND(Bus);

}  // namespace
}  // namespace twinbox::test
