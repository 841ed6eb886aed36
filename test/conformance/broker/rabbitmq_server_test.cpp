// RabbitMQ stopped, killed, started again, and out of memory; TLS; what the doctor sees.
#include <set>

#include "rabbit_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

class RabbitServer : public RabbitTest {
 protected:
  /// The broker takes no messages while it lives.
  struct Alarm {
    Alarm() { Rabbit::alarm(true); }
    ~Alarm() { Rabbit::alarm(false); }
  };
};

/// Messages go from an outbox over a broker into an inbox while the broker goes away twice.
TEST_P(RabbitServer, EVB_27_EVB_28_nothing_is_lost_when_the_broker_is_stopped_and_killed) {
  const std::string name = own_name("through");
  constexpr int count = 600;
  {
    const auto publisher = std::make_shared<RabbitPublisher>(
        connection(), RabbitSinkOptions{.routing_key = name}, environment());
    const Routes routes{
        {{.name = "rabbit", .pattern = TopicPattern{"#"}, .sink = rabbitmq_sink(publisher)}}};
    RunningRabbit source = run({.queue = name, .topology = Topology::declare});
    ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
    const auto relay_some = [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        outbox().enqueue({.topic = Topic{"order.placed"},
                          .payload = payload(),
                          .id = MessageId{"m" + std::to_string(i)}});
      }
      Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
    };
    relay_some(0, count / 3);
    Rabbit::stop();
    relay_some(count / 3, count / 3 * 2);
    EXPECT_FALSE(source.status().connected);
    Rabbit::start();
    ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
    relay_some(count / 3 * 2, count);
    Rabbit::stop("KILL");
    Rabbit::start();
    ASSERT_TRUE(eventually([&] {
      clock().advance(1min);
      Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
      return read("select count(*) from {schema}outbox_work") == "0" &&
             count_messages() == std::to_string(count);
    })) << count_messages();
  }
  Rabbit cleaner;
  cleaner.forget_queue(name);
  cleaner.forget_queue(name + ".dead");
  EXPECT_EQ(cleaner.count(name), 0u);
  EXPECT_EQ(cleaner.count(name + ".dead"), 0u);
}

TEST_P(RabbitServer, EVB_27_messages_wait_in_the_outbox_while_the_broker_takes_none) {
  const std::string name = rabbit.queue(own_name("through"));
  const auto publisher = [&] {
    return std::make_shared<RabbitPublisher>(connection(), RabbitSinkOptions{.routing_key = name},
                                             environment());
  };
  std::set<std::string> sent;
  const auto enqueue = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::string id = "m" + std::to_string(sent.size());
      sent.insert(id);
      outbox().enqueue({.topic = Topic{"order.placed"}, .payload = payload(), .id = MessageId{id}});
    }
  };
  const auto relay = [&](const std::shared_ptr<RabbitPublisher>& to) {
    const Routes routes{
        {{.name = "rabbit", .pattern = TopicPattern{"#"}, .sink = rabbitmq_sink(to)}}};
    Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
    clock().advance(1min);
    return read("select count(*) from {schema}outbox_work");
  };
  const auto known = publisher();
  enqueue(1);
  ASSERT_EQ(relay(known), "0");
  {
    const Alarm alarm;
    ASSERT_TRUE(eventually([&] {  // whoever sends something is told
      enqueue(10);
      relay(known);
      return !log().events("broker_blocked").empty();
    }));
    enqueue(50);
    for (int i = 0; i < 3; ++i) EXPECT_GE(std::stoi(relay(known)), 50);
    relay(publisher());
    EXPECT_EQ(read("select count(*) from {schema}outbox_failure"), "0");
  }
  ASSERT_TRUE(eventually([&] { return relay(known) == "0"; }));
  std::set<std::string> found;
  for (const RabbitMessage& message : rabbit.drain(name)) found.insert(message.message_id);
  EXPECT_EQ(found, sent);
}

/// More than the buffers between the two hold: the write waits, and what the broker says about it
/// is not read meanwhile.
TEST_P(RabbitServer, EVB_27_a_large_message_that_the_broker_does_not_read_costs_no_attempt) {
  const std::string name = rabbit.queue(own_name("through"));
  for (const std::size_t size : {std::size_t{64} * 1024 * 1024, std::size_t{10}, std::size_t{10}}) {
    outbox().enqueue({.topic = Topic{"order.placed"}, .payload = std::string(size, 'x')});
  }
  const auto claimed = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 3u);
  RabbitPublisher publisher{connection(), {.routing_key = name, .timeout = 2s}, environment()};
  const Alarm alarm;
  for (const Outcome& one : publisher.publish(claimed)) {
    EXPECT_EQ(one.kind(), Outcome::Kind::postpone) << one.reason();
  }
  EXPECT_FALSE(log().events("broker_blocked").empty());
}

TEST_P(RabbitServer, PHD_30_a_dead_letter_that_has_to_wait_holds_up_nothing_else) {
  RabbitSourceOptions options = source_options();
  options.prefetch = 5;
  rabbit.publish("", queue, {.body = payload("anonymous")});
  constexpr int count = 50;
  for (int i = 0; i < count; ++i) send(std::to_string(i));
  ASSERT_TRUE(eventually([&] { return rabbit.count(queue) == count + 1; }));
  auto alarm = std::make_unique<Alarm>();
  RunningRabbit source = run(options);
  ASSERT_TRUE(source.wait_for(count));
  EXPECT_EQ(source.status().dead, 0u);
  alarm.reset();
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_EQ(rabbit.count(queue), 0u);
  EXPECT_EQ(rabbit.count(queue + ".dead"), 1u);
}

/// A broker that says it is of the version from which on quorum queues discard what comes back.
class RabbitFour : public RabbitTest {
 protected:
  RabbitFour() {
    relay.rewrite("3.10.", "4.10.");
    queue = own_name("quorum");
  }
  [[nodiscard]] RabbitConnection four() const {
    return {.url = with_port(Rabbit::url(), relay.port())};
  }
  /// Throws when it is there with other arguments.
  void make(std::map<std::string, std::string> arguments) {
    arguments["x-queue-type"] = "quorum";
    rabbit.queue(queue, arguments);
    rabbit.queue(queue + ".dead", arguments);
  }

  Relay relay{port_of(Rabbit::url())};
};

TEST_P(RabbitFour, a_source_declares_queues_that_keep_what_comes_back_often) {
  {
    RunningRabbit source{
        four(), {.queue = queue, .topology = Topology::declare}, accept_into(inbox())};
    ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
  }
  EXPECT_NO_THROW(make({{"x-delivery-limit", "-1"}}));
}

TEST_P(RabbitFour, a_source_uses_a_queue_that_was_made_otherwise_as_it_is) {
  make({});
  RunningRabbit source{
      four(), {.queue = queue, .topology = Topology::declare}, accept_into(inbox())};
  ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
  send("a");
  EXPECT_TRUE(source.wait_for(1));
}

TWINBOX_ON_BACKENDS(RabbitFour, Backend::sqlite_file);
TWINBOX_ON_BACKENDS(RabbitServer, Backend::sqlite_file);

class RabbitTls : public ::testing::Test {
 protected:
  static RabbitConnection connection(const char* ca) {
    return {.url = Rabbit::setting("TWINBOX_TEST_RABBITMQ_TLS"), .ca_file = Rabbit::setting(ca)};
  }
  static std::vector<Finding> look(const RabbitConnection& connection) {
    return examine_rabbitmq(connection, RabbitSinkOptions{});
  }
};

TEST_F(RabbitTls, is_spoken_with_a_broker_whose_certificate_is_known) {
  const auto findings = look(connection("TWINBOX_TEST_CA"));
  EXPECT_EQ(findings.at(0).level, Finding::Level::ok) << findings.at(0).found;
}

TEST_F(RabbitTls, is_refused_with_a_certificate_of_somebody_else) {
  const auto findings = look(connection("TWINBOX_TEST_WRONG_CA"));
  EXPECT_EQ(findings.at(0).level, Finding::Level::error) << findings.at(0).found;
}

TEST_F(RabbitTls, is_refused_with_a_certificate_for_another_name) {
  RabbitConnection other = connection("TWINBOX_TEST_CA");
  other.url.replace(other.url.find("localhost"), 9, "127.0.0.1");
  EXPECT_EQ(look(other).at(0).level, Finding::Level::error);
}

TEST_F(RabbitTls, shows_a_certificate_that_the_broker_checks) {
  RabbitConnection shown = connection("TWINBOX_TEST_CA");
  shown.certificate_file = Rabbit::setting("TWINBOX_TEST_WRONG_CA");
  shown.key_file = Rabbit::setting("TWINBOX_TEST_WRONG_CA_KEY");
  EXPECT_EQ(look(shown).at(0).level, Finding::Level::error) << "that of somebody else";
  shown.certificate_file = Rabbit::setting("TWINBOX_TEST_CLIENT");
  shown.key_file = Rabbit::setting("TWINBOX_TEST_CLIENT_KEY");
  const auto findings = look(shown);
  EXPECT_EQ(findings.at(0).level, Finding::Level::ok) << findings.at(0).found;
}

TEST_F(RabbitTls, carries_messages_both_ways) {
  Rabbit rabbit;
  const std::string queue = rabbit.queue(own_name("tls"));
  rabbit.queue(queue + ".dead");
  std::mutex mutex;
  std::condition_variable came;
  std::vector<std::string> bodies;
  CloudEvent event{.id = "a", .source = "/shop", .type = "order.placed"};
  event.set_data('"' + std::string(300'000, 'x') + '"');  // several frames, several TLS records
  RabbitPublisher{connection("TWINBOX_TEST_CA"), {.routing_key = queue}}.send(event);
  RunningRabbit source{connection("TWINBOX_TEST_CA"),
                       {.queue = queue, .queue_type = "classic"},
                       [&](std::span<const Arrival> arrivals) {
                         const std::scoped_lock lock{mutex};
                         for (const Arrival& one : arrivals) bodies.push_back(one.payload);
                         came.notify_all();
                         return std::vector<Accepted>(arrivals.size(),
                                                      Accepted{Acceptance::accepted});
                       }};
  std::unique_lock lock{mutex};
  ASSERT_TRUE(came.wait_for(lock, 90s, [&] { return bodies.size() == 1; }));
  EXPECT_EQ(event_from_json(bodies[0]).data, event.data);
}

class RabbitDoctor : public ::testing::Test {
 protected:
  const Finding* find(const std::string& check, Finding::Level level) {
    for (const Finding& one : findings) {
      if (one.check == check && one.level == level) return &one;
    }
    return nullptr;
  }
  void look(const std::string& queue) {
    findings = examine_rabbitmq({.url = Rabbit::url()}, RabbitSourceOptions{.queue = queue});
  }

  Rabbit rabbit;
  std::vector<Finding> findings;
};

TEST_F(RabbitDoctor, finds_nothing_wrong_with_a_durable_queue_and_its_dead_letters) {
  const std::string queue = rabbit.queue(own_name("good"));
  rabbit.queue(queue + ".dead");
  look(queue);
  for (const Finding& one : findings) EXPECT_EQ(one.level, Finding::Level::ok) << one.found;
  EXPECT_NE(find("durable", Finding::Level::ok), nullptr);
}

TEST_F(RabbitDoctor, finds_a_queue_that_a_restart_would_lose) {
  const std::string queue = rabbit.queue(own_name("weak"), {}, false);
  look(queue);
  const Finding* found = find("durable", Finding::Level::error);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(has(found->found, queue));
  EXPECT_FALSE(found->fix.empty());
}

TEST_F(RabbitDoctor, finds_a_queue_that_goes_with_its_consumer) {
  const std::string queue = rabbit.queue(own_name("fleeting"), {}, true, true);
  look(queue);
  ASSERT_NE(find("auto_delete", Finding::Level::error), nullptr);
  EXPECT_NE(find("durable", Finding::Level::ok), nullptr);
  const std::string both = rabbit.queue(own_name("weak"), {}, false, true);
  look(both);
  EXPECT_NE(find("auto_delete", Finding::Level::error), nullptr);
  EXPECT_NE(find("durable", Finding::Level::error), nullptr);
}

TEST_F(RabbitDoctor, finds_a_queue_that_discards_what_waits) {
  for (const char* limit : {"x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes"}) {
    const std::string queue = rabbit.queue(own_name(limit), {{limit, "600000"}});
    look(queue);
    const Finding* found = find("discards", Finding::Level::warning);
    ASSERT_NE(found, nullptr) << limit;
    EXPECT_TRUE(has(found->found, limit)) << found->found;
    EXPECT_NE(find("durable", Finding::Level::ok), nullptr);
  }
  look(rabbit.queue(own_name("keeping")));
  EXPECT_EQ(find("discards", Finding::Level::warning), nullptr);
}

TEST_F(RabbitDoctor, finds_a_quorum_queue_durable_and_on_later_brokers_limited) {
  const std::string queue = rabbit.queue(own_name("quorum"), {{"x-queue-type", "quorum"}});
  const std::string free =
      rabbit.queue(own_name("free"), {{"x-queue-type", "quorum"}, {"x-delivery-limit", "-1"}});
  look(queue);
  EXPECT_NE(find("durable", Finding::Level::ok), nullptr);
  EXPECT_EQ(find("delivery_limit", Finding::Level::warning), nullptr);
  Relay relay{port_of(Rabbit::url())};
  relay.rewrite("3.10.", "4.10.");
  const RabbitConnection later{.url = with_port(Rabbit::url(), relay.port())};
  findings = examine_rabbitmq(later, RabbitSourceOptions{.queue = queue});
  EXPECT_NE(find("durable", Finding::Level::ok), nullptr);
  EXPECT_NE(find("delivery_limit", Finding::Level::warning), nullptr);
  findings = examine_rabbitmq(later, RabbitSourceOptions{.queue = free});
  EXPECT_EQ(find("delivery_limit", Finding::Level::warning), nullptr);
}

TEST_F(RabbitDoctor, says_when_its_user_may_not_ask_how_a_queue_is_made) {
  const std::string queue = rabbit.queue(own_name("in"));
  Rabbit::configure_nothing(true);
  look(queue);
  Rabbit::configure_nothing(false);
  const Finding* found = find("durable", Finding::Level::warning);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(has(found->found, "right")) << found->found;
}

TEST_F(RabbitDoctor, finds_a_missing_place_for_dead_letters_and_dead_letters_that_wait) {
  const std::string queue = rabbit.queue(own_name("in"));
  look(queue);
  ASSERT_NE(find("queue", Finding::Level::error), nullptr);
  EXPECT_TRUE(has(find("queue", Finding::Level::error)->found, queue + ".dead"));
  rabbit.queue(queue + ".dead");
  rabbit.publish("", queue + ".dead", {.body = "x"});
  ASSERT_TRUE(eventually([&] { return rabbit.count(queue + ".dead") == 1; }));
  look(queue);
  ASSERT_NE(find("dead", Finding::Level::warning), nullptr);
  EXPECT_TRUE(has(find("dead", Finding::Level::warning)->found, "1 dead"));
}

TEST_F(RabbitDoctor, finds_dead_letters_in_a_place_that_loses_them) {
  const std::string queue = rabbit.queue(own_name("in"));
  rabbit.queue(queue + ".dead", {}, false);
  look(queue);
  const Finding* found = find("durable", Finding::Level::error);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(has(found->found, queue + ".dead")) << found->found;
}

TEST_F(RabbitDoctor, does_not_ask_for_what_is_made_when_its_source_begins) {
  const std::string queue = own_name("new");
  findings = examine_rabbitmq({.url = Rabbit::url()},
                              RabbitSourceOptions{.queue = queue, .topology = Topology::declare});
  const Finding* found = find("queue", Finding::Level::warning);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(has(found->found, queue)) << found->found;
  EXPECT_FALSE(has(found->fix, "set topology")) << found->fix;
  look(queue);
  ASSERT_NE(find("queue", Finding::Level::error), nullptr);
  EXPECT_TRUE(has(find("queue", Finding::Level::error)->fix, "set topology"));
}

TEST_F(RabbitDoctor, says_when_a_broker_cannot_be_reached_and_shows_no_password) {
  Relay relay{1};
  findings =
      examine_rabbitmq({.url = "amqp://me:tops3cret@127.0.0.1:" + std::to_string(relay.port())},
                       RabbitSinkOptions{});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "reach");
  EXPECT_EQ(findings[0].level, Finding::Level::error);
  EXPECT_FALSE(has(findings[0].found, "tops3cret"));
}

TEST_F(RabbitDoctor, says_that_a_login_was_refused) {
  std::string url = Rabbit::url();
  url.replace(url.find("guest:guest"), 11, "guest:wrong");
  findings = examine_rabbitmq({.url = url}, RabbitSinkOptions{});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(has(findings[0].found, "403")) << findings[0].found;
}

}  // namespace
}  // namespace twinbox::test
