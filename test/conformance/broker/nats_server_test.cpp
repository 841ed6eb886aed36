// NATS stopped, killed and started again; TLS; what the doctor sees.
#include "nats_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/sink.hpp>

#ifdef __SANITIZE_THREAD__
/// libnats reads and writes one TLS connection on two threads; OpenSSL knows of no locks that would
/// order them. Stacks do not show libnats, which is not instrumented: OpenSSL can only be passed
/// over as a whole, in this program and in no other that speaks TLS.
extern "C" const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() { return "race:libssl.so\nrace:libcrypto.so\n"; }
#endif

namespace twinbox::test {
namespace {

class NatsServer : public NatsTest {};

/// Messages go from an outbox over a server into an inbox while the server goes away twice.
TEST_P(NatsServer, EVB_27_EVB_28_nothing_is_lost_when_the_server_is_stopped_and_killed) {
  constexpr int count = 600;
  const auto publisher = std::make_shared<NatsPublisher>(
      connection(),
      NatsSinkOptions{
          .stream = own(), .subject_prefix = stream + ".", .topology = Topology::declare},
      environment());
  const Routes routes{
      {{.name = "nats", .pattern = TopicPattern{"#"}, .sink = nats_sink(publisher)}}};
  RunningNats source = run();
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
  Nats::stop();
  relay_some(count / 3, count / 3 * 2);
  EXPECT_TRUE(eventually([&] { return !source.status().connected; }));
  Nats::start();
  ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
  relay_some(count / 3 * 2, count);
  Nats::stop("KILL");
  Nats::start();
  ASSERT_TRUE(eventually([&] {
    clock().advance(1min);
    Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
    return read("select count(*) from {schema}outbox_work") == "0" &&
           count_messages() == std::to_string(count);
  })) << count_messages();
  ASSERT_TRUE(eventually([&] { return source.status().connected && left() == 0; }));
  source.stop();
  EXPECT_TRUE(dead_letters().empty());
}

/// Three servers keep the stream; the one that leads it crashes, and comes back.
TEST_P(NatsServer, EVB_27_EVB_28_nothing_is_lost_when_the_leader_of_a_cluster_is_killed) {
  constexpr int count = 600;
  const NatsConnection cluster{.url = Nats::setting("TWINBOX_TEST_NATS_CLUSTER"),
                               .max_reconnect_delay = 100ms};
  Nats member{cluster.url};
  member.forget(stream);
  member.forget(stream + "_dead");
  NatsSourceOptions options = source_options();
  options.stream.replicas = 3;
  const auto publisher =
      std::make_shared<NatsPublisher>(cluster,
                                      NatsSinkOptions{.stream = options.stream,
                                                      .subject_prefix = stream + ".",
                                                      .topology = Topology::declare,
                                                      .timeout = 2s},
                                      environment());
  // Time flies here, so that all attempts would be over before another server leads.
  const Routes routes{{{.name = "nats",
                        .pattern = TopicPattern{"#"},
                        .sink = nats_sink(publisher),
                        .options = {.retry = RetryPolicy{.max_attempts = 1'000'000}}}}};
  RunningNats source{cluster, options, accept_into(inbox()), environment()};
  int sent = 0;
  const auto relay_until = [&](int last) {
    for (; sent < last; ++sent) {
      outbox().enqueue({.topic = Topic{"order.placed"},
                        .payload = payload(),
                        .id = MessageId{"m" + std::to_string(sent)}});
    }
    return eventually([&] {
      clock().advance(1min);
      Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
      return count_messages() == std::to_string(last);
    });
  };
  ASSERT_TRUE(relay_until(count / 3)) << count_messages();
  std::string leader;
  ASSERT_TRUE(eventually([&] { return !(leader = member.leader(stream)).empty(); }));
  Nats::stop("KILL", leader);
  EXPECT_TRUE(relay_until(count / 3 * 2)) << count_messages();
  Nats::start();
  ASSERT_TRUE(relay_until(count)) << count_messages();
  EXPECT_EQ(read("select count(*) from {schema}outbox_work"), "0");
  source.stop();
}

TEST_P(NatsServer, what_is_held_longer_than_ack_wait_does_not_come_twice) {
  make_stream();
  NatsSourceOptions options = source_options();
  options.ack_wait = 3s;
  nats.watch("$JS.ACK." + stream + ".>");
  send("a");
  std::mutex mutex;
  std::condition_variable told;
  bool go = false;
  RunningNats source{connection(), options, [&](std::span<const Arrival> arrivals) {
                       std::unique_lock lock{mutex};
                       told.wait(lock, [&] { return go; });
                       return inbox().accept(arrivals);
                     }};
  // Every third of ack_wait it is said that it is still held.
  for (int i = 0; i < 4; ++i) EXPECT_EQ(nats.next(), "+WPI");
  {
    const std::scoped_lock lock{mutex};
    go = true;
    told.notify_all();
  }
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(nats.deliveries(stream, "box"), 1u);
  EXPECT_TRUE(acknowledged());
}

TEST_P(NatsServer, heartbeats_tell_that_a_silent_connection_is_lost) {
  make_stream();
  Relay relay{port_of(Nats::url())};
  RunningNats source{{.url = with_port(Nats::url(), relay.port()),
                      .connect_timeout = 1s,
                      .heartbeat = 1s,
                      .max_reconnect_delay = 100ms},
                     source_options(),
                     accept_into(inbox()),
                     environment()};
  ASSERT_TRUE(eventually([&] { return source.status().connected; }));
  relay.freeze();
  ASSERT_TRUE(eventually([&] { return !source.status().connected; }));
  relay.thaw();
  send("a");
  EXPECT_TRUE(source.wait_for(1));
}

TWINBOX_ON_BACKENDS(NatsServer, Backend::sqlite_file);

class NatsTls : public ::testing::Test {
 protected:
  static NatsConnection connection(const char* ca) {
    return {.url = Nats::setting("TWINBOX_TEST_NATS_TLS"), .ca_file = Nats::setting(ca)};
  }
  static Finding look(const NatsConnection& connection) {
    return examine_nats(connection, NatsSinkOptions{}).at(0);
  }
};

TEST_F(NatsTls, is_spoken_with_a_server_whose_certificate_is_known) {
  const Finding found = look(connection("TWINBOX_TEST_CA"));
  EXPECT_EQ(found.level, Finding::Level::ok) << found.found;
}

TEST_F(NatsTls, is_refused_with_a_certificate_of_somebody_else) {
  const Finding found = look(connection("TWINBOX_TEST_WRONG_CA"));
  EXPECT_EQ(found.level, Finding::Level::error) << found.found;
  EXPECT_EQ(found.check, "reach");
}

TEST_F(NatsTls, is_refused_with_a_certificate_for_another_name) {
  NatsConnection other = connection("TWINBOX_TEST_CA");
  other.url.replace(other.url.find("localhost"), 9, "127.0.0.1");
  EXPECT_EQ(look(other).level, Finding::Level::error);
}

TEST_F(NatsTls, is_not_left_out_when_the_server_speaks_without_it) {
  NatsConnection other = connection("TWINBOX_TEST_CA");
  other.url = "tls://twinbox:twinbox@localhost:" + std::to_string(port_of(Nats::url()));
  EXPECT_EQ(look(other).level, Finding::Level::error);
}

TEST_F(NatsTls, shows_a_certificate_to_a_server_that_asks_for_one) {
  NatsConnection shown = connection("TWINBOX_TEST_CA");
  shown.url = Nats::setting("TWINBOX_TEST_NATS_MUTUAL");
  EXPECT_EQ(look(shown).level, Finding::Level::error) << "it shows none";
  shown.certificate_file = Nats::setting("TWINBOX_TEST_WRONG_CA");
  shown.key_file = Nats::setting("TWINBOX_TEST_WRONG_CA_KEY");
  EXPECT_EQ(look(shown).level, Finding::Level::error) << "that of somebody else";
  shown.certificate_file = Nats::setting("TWINBOX_TEST_CLIENT");
  shown.key_file = Nats::setting("TWINBOX_TEST_CLIENT_KEY");
  const Finding found = look(shown);
  EXPECT_EQ(found.level, Finding::Level::ok) << found.found;
}

TEST_F(NatsTls, carries_messages_both_ways_with_a_token) {
  const NatsConnection to = connection("TWINBOX_TEST_CA");
  const std::string name = own_stream("tls");
  const NatsStream stream{.name = name, .subjects = {name + ".>"}};
  NatsPublisher publisher{
      to, {.stream = stream, .subject_prefix = name + ".", .topology = Topology::declare}};
  CloudEvent event{.id = "a", .source = "/shop", .type = "order"};
  const std::string large(300'000, 'x');  // several TLS records
  event.set_data(large, "text/plain");
  publisher.send(event);
  std::mutex mutex;
  std::condition_variable came;
  std::vector<std::string> bodies;
  NatsSourceOptions options{.stream = stream, .consumer = "box", .topology = Topology::declare};
  RunningNats source{to, options, [&](std::span<const Arrival> arrivals) {
                       const std::scoped_lock lock{mutex};
                       for (const Arrival& one : arrivals) bodies.push_back(one.payload);
                       came.notify_all();
                       return std::vector<Accepted>(arrivals.size(),
                                                    Accepted{Acceptance::accepted});
                     }};
  std::unique_lock lock{mutex};
  ASSERT_TRUE(came.wait_for(lock, 90s, [&] { return bodies.size() == 1; }));
  EXPECT_EQ(event_from_json(bodies[0]).data, large);
}

class NatsDoctor : public ::testing::Test {
 protected:
  NatsDoctor() : stream(own_stream("in")) {}
  const Finding* find(const std::string& check, Finding::Level level) {
    for (const Finding& one : findings) {
      if (one.check == check && one.level == level) return &one;
    }
    return nullptr;
  }
  void make(const std::function<void(jsStreamConfig&)>& change = {}) {
    nats.stream(stream, {stream + ".>"}, change);
  }
  void look() {
    findings =
        examine_nats(connection(), NatsSourceOptions{.stream = {.name = stream}, .consumer = "c"});
  }
  static NatsConnection connection() { return {.url = Nats::url()}; }

  Nats nats;
  std::string stream;
  std::vector<Finding> findings;
};

TEST_F(NatsDoctor, finds_nothing_wrong_with_a_stream_its_consumer_and_its_dead_letters) {
  make();
  nats.consumer(stream, "c");
  nats.stream(stream + "_dead", {"dead." + stream + ".*"});
  look();
  for (const Finding& one : findings) {
    if (one.check == "sync") continue;
    EXPECT_EQ(one.level, Finding::Level::ok) << one.found;
  }
  EXPECT_NE(find("stream", Finding::Level::ok), nullptr);
  EXPECT_NE(find("consumer", Finding::Level::ok), nullptr);
  EXPECT_NE(find("dead", Finding::Level::ok), nullptr);
}

TEST_F(NatsDoctor, finds_that_acknowledged_messages_may_not_be_on_disk) {
  make();
  look();
  const Finding* found = find("sync", Finding::Level::warning);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(has(found->found, "once a minute")) << found->found;
  EXPECT_FALSE(found->fix.empty());
}

TEST_F(NatsDoctor, finds_a_stream_that_a_restart_would_lose) {
  make([](jsStreamConfig& config) { config.Storage = js_MemoryStorage; });
  look();
  ASSERT_NE(find("storage", Finding::Level::error), nullptr);
  EXPECT_TRUE(has(find("storage", Finding::Level::error)->found, stream));
}

TEST_F(NatsDoctor, finds_a_stream_that_drops_what_nobody_has_read) {
  make([](jsStreamConfig& config) {
    config.MaxMsgs = 1000;
    config.MaxAge = std::chrono::nanoseconds{1h}.count();
  });
  look();
  EXPECT_NE(find("discard", Finding::Level::warning), nullptr);
  ASSERT_NE(find("age", Finding::Level::warning), nullptr);
  EXPECT_TRUE(has(find("age", Finding::Level::warning)->found, "3600 s"));
}

TEST_F(NatsDoctor, finds_a_stream_that_keeps_nothing_yet_and_one_that_acknowledges_nothing) {
  make([](jsStreamConfig& config) { config.Retention = js_InterestPolicy; });
  look();
  EXPECT_NE(find("interest", Finding::Level::warning), nullptr);
  const std::string silent = nats.stream(own_stream("silent"), {own_stream("quiet")},
                                         [](jsStreamConfig& config) { config.NoAck = true; });
  findings = examine_nats(connection(), NatsSinkOptions{.stream = {.name = silent}});
  EXPECT_NE(find("acknowledge", Finding::Level::error), nullptr);
}

TEST_F(NatsDoctor, finds_a_consumer_that_gives_up_silently) {
  make();
  nats.consumer(stream, "c", [](jsConsumerConfig& config) { config.MaxDeliver = 5; });
  look();
  EXPECT_NE(find("deliver", Finding::Level::warning), nullptr);
}

TEST_F(NatsDoctor, finds_what_is_missing_and_dead_letters_that_wait) {
  look();
  ASSERT_NE(find("stream", Finding::Level::error), nullptr);
  make();
  look();
  EXPECT_NE(find("consumer", Finding::Level::error), nullptr);
  EXPECT_NE(find("dead", Finding::Level::error), nullptr);
  nats.stream(stream + "_dead", {"dead." + stream + ".*"});
  nats.publish("dead." + stream + ".c", {.body = "x"});
  look();
  ASSERT_NE(find("dead", Finding::Level::warning), nullptr);
  EXPECT_TRUE(has(find("dead", Finding::Level::warning)->found, "1 dead"));
}

TEST_F(NatsDoctor, finds_dead_letters_in_a_place_that_loses_them) {
  make();
  const std::string dead = stream + "_dead";
  nats.stream(dead, {"dead." + stream + ".*"},
              [](jsStreamConfig& config) { config.Storage = js_MemoryStorage; });
  look();
  const Finding* found = find("storage", Finding::Level::error);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(has(found->found, dead)) << found->found;
}

TEST_F(NatsDoctor, does_not_ask_for_what_is_made_when_its_source_begins) {
  NatsSourceOptions options{
      .stream = {.name = stream}, .consumer = "c", .topology = Topology::declare};
  findings = examine_nats(connection(), options);
  ASSERT_NE(find("stream", Finding::Level::warning), nullptr);
  make();
  findings = examine_nats(connection(), options);
  for (const char* check : {"consumer", "dead"}) {
    const Finding* found = find(check, Finding::Level::warning);
    ASSERT_NE(found, nullptr) << check;
    EXPECT_FALSE(has(found->fix, "set topology")) << found->fix;
  }
  look();
  EXPECT_TRUE(has(find("consumer", Finding::Level::error)->fix, "set topology"));
}

TEST_F(NatsDoctor, says_when_a_server_cannot_be_reached_and_shows_no_password) {
  Relay relay{1};
  findings = examine_nats({.url = "nats://me:tops3cret@127.0.0.1:" + std::to_string(relay.port())},
                          NatsSinkOptions{});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "reach");
  EXPECT_EQ(findings[0].level, Finding::Level::error);
  EXPECT_FALSE(has(findings[0].found, "tops3cret"));
}

TEST_F(NatsDoctor, says_that_a_login_was_refused) {
  std::string url = Nats::url();
  url.replace(url.find("twinbox:twinbox"), 15, "twinbox:wrong");
  findings = examine_nats({.url = url}, NatsSinkOptions{});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(has(findings[0].found, "uthoriz")) << findings[0].found;
}

TEST_F(NatsDoctor, names_credentials_that_cannot_be_read) {
  findings =
      examine_nats({.url = Nats::url(), .credentials_file = "/nowhere.creds"}, NatsSinkOptions{});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].level, Finding::Level::error);
  EXPECT_TRUE(has(findings[0].found, "nowhere.creds")) << findings[0].found;
}

}  // namespace
}  // namespace twinbox::test
