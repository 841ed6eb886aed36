// Sinks and sources over brokers, as a configuration describes them.
#include <gtest/gtest.h>

#include "daemon/config/config.hpp"
#include "daemon/config/owned_sources.hpp"
#include "daemon/intake/sources.hpp"
#include "daemon/service.hpp"

namespace twinbox::app {
namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const std::string store = "[store.main]\nurl = \"sqlite::memory:\"\n";

Config parse(const std::string& text, const Variables& variables = {}) {
  return parse_config(store + text, "twinbox.toml", variables);
}

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(BrokerSources, of_webhook_endpoints_and_other_brokers_are_refused) {
  const Config config = parse(R"(
    [webhook.stripe]
    scheme = "none"
    [webhook.pay]
    scheme = "none"
    source = "fixed:payments"
    [webhook.crm]
    scheme = "none"
    source = "/account"
    [source.bank]
    url = "amqp://x"
    queue = "q"
    [source.tills]
    url = "amqp://x"
    queue = "q"
    source = "till"
  )");
  EXPECT_EQ(owned_sources(config), (SourceNames{"bank", "crm", "payments", "stripe", "till"}));
  EXPECT_EQ(reserved_for(config.sources.at(0), config),
            (SourceNames{"crm", "payments", "stripe", "till"}));
  EXPECT_EQ(reserved_for(config.sources.at(1), config),
            (SourceNames{"bank", "crm", "payments", "stripe"}));
  int accepted = 0;
  const AcceptCall accept = refuse_sources(
      [&](std::span<const Arrival> arrivals) {
        ++accepted;
        return std::vector<Accepted>(arrivals.size());
      },
      owned_sources(config));
  const std::vector<Arrival> arrivals = {{Source{"shop"}, MessageId{"1"}, Topic{"t"}, "x"},
                                         {Source{"stripe"}, MessageId{"1"}, Topic{"t"}, "x"}};
  EXPECT_THROW(accept(arrivals), RequestError);
  EXPECT_EQ(accepted, 0);
  EXPECT_EQ(accept({arrivals.data(), 1}).size(), 1u);
}

TEST(InboxSinks, under_a_source_that_has_an_owner_are_refused) {
  const std::string owners =
      "[webhook.shop]\nscheme = \"none\"\n[source.tills]\nurl = \"amqp://x\"\nqueue = \"q\"\n";
  for (const std::string source : {"shop", "tills"}) {
    const std::string found =
        refusal("[sink.local]\ntype = \"inbox\"\nsource = \"" + source + "\"\n" + owners);
    EXPECT_TRUE(has(found, "twinbox.toml:5: sink.local.source")) << found;
    EXPECT_TRUE(has(found, "\"" + source + "\" belongs to")) << found;
  }
  EXPECT_TRUE(has(refusal("[sink.local]\ntype = \"inbox\"\n[webhook.outbox]\nscheme = \"none\"\n"),
                  "sink.local.source"))
      << "the usual source of a sink";
  EXPECT_EQ(refusal("[sink.local]\ntype = \"inbox\"\nsource = \"mine\"\n" + owners), "");
  EXPECT_EQ(refusal("[sink.local]\n[webhook.outbox]\nscheme = \"none\"\n"), "");
}

TEST(InboxSinks, own_the_sources_under_which_they_bring_messages) {
  const std::vector<Token> tokens = {{"till", Role::send, {}},
                                     {"boss", Role::admin, {}},
                                     {"viewer", Role::read, {}},
                                     {"keeper", Role::operate, {}}};
  const std::string sinks =
      "[sink.local]\ntype = \"inbox\"\n[sink.far]\ntype = \"inbox\"\nsource = \"relay\"\n";
  const Config config = parse(sinks + "[[route]]\nsink = \"local\"\n");
  EXPECT_EQ(relayed_sources(config), (SourceNames{"outbox", "relay"}));
  EXPECT_EQ(relayed_senders(config, tokens), (SourceNames{"boss", "till"}));
  EXPECT_EQ(owned_sources(config), SourceNames{}) << "what the sink brings is not refused";
  const Config between_inboxes = parse(sinks + "[[route]]\nbox = \"inbox\"\nsink = \"local\"\n");
  EXPECT_EQ(relayed_senders(between_inboxes, tokens), SourceNames{});
  EXPECT_EQ(relayed_sources(parse("")), SourceNames{});
}

TEST(BrokerConfig, of_a_sink_and_a_source_is_read_and_can_be_made) {
  const Config config = parse(R"(
    [sink.events]
    type = "rabbitmq"
    url = "env:BROKER"
    exchange = "events"
    form = "structured"
    topology = "declare"
    [[route]]
    sink = "events"
    [source.orders]
    type = "rabbitmq"
    url = "env:BROKER"
    queue = "orders"
    bindings = ["events order.#", "other"]
    max_retries = 3
    delay = "2s"
    prefetch = 10
  )",
                              {{"BROKER", "amqp://me:s3cr3t@localhost"}});
  const SinkConfig& sink = config.sinks.at(0);
  EXPECT_EQ(sink.broker.url, "amqp://me:s3cr3t@localhost");
  EXPECT_TRUE(sink.broker.declare);
  EXPECT_EQ(sink.exchange, "events");
  const SourceConfig& source = config.sources.at(0);
  EXPECT_EQ(source.broker.url, "amqp://me:s3cr3t@localhost");
  EXPECT_FALSE(source.broker.declare);
  EXPECT_EQ(source.bindings.size(), 2u);
  EXPECT_EQ(source.max_retries, 3);
  EXPECT_EQ(source.prefetch, 10);
  EXPECT_TRUE(check_config(config).empty());
}

TEST(BrokerConfig, of_nats_is_read_and_can_be_made) {
  const Config config = parse(R"(
    [sink.events]
    type = "nats"
    url = "env:BROKER"
    stream = "events"
    subjects = ["order.>"]
    retention = "work_queue"
    topology = "declare"
    [[route]]
    sink = "events"
    [source.orders]
    type = "nats"
    url = "nats://a:4222,nats://b:4222"
    credentials_file = "/etc/orders.creds"
    stream = "events"
    consumer = "orders"
    filter = "order.*"
    ack_wait = "5s"
    max_deliver = 7
  )",
                              {{"BROKER", "nats://me:s3cr3t@localhost"}});
  const SinkConfig& sink = config.sinks.at(0);
  EXPECT_TRUE(sink.is_broker());
  EXPECT_EQ(sink.broker.url, "nats://me:s3cr3t@localhost");
  EXPECT_EQ(sink.stream.retention, StreamConfig::Retention::work_queue);
  const SourceConfig& source = config.sources.at(0);
  EXPECT_EQ(source.kind, SourceConfig::Kind::nats);
  EXPECT_EQ(source.consumer, "orders");
  EXPECT_EQ(source.ack_wait, std::chrono::seconds{5});
  EXPECT_EQ(source.max_deliver, 7);
  EXPECT_TRUE(check_config(config).empty());
}

TEST(BrokerConfig, of_nats_that_cannot_be_is_refused_with_its_line_and_key) {
  const std::string sink = "[sink.a]\ntype = \"nats\"\n";
  EXPECT_TRUE(has(refusal(sink), "sink.a.url"));
  EXPECT_TRUE(has(refusal(sink + "url = \"amqp://x\""), "twinbox.toml:5: sink.a.url"));
  for (const char* secret : {"me:s3cret@", "s3cret@"}) {  // a user alone is a token
    const std::string found = refusal(sink + "url = \"nats://" + secret + "x\"");
    EXPECT_TRUE(has(found, "contains a password")) << found;
    EXPECT_FALSE(has(found, "s3cret")) << found;
  }
  const std::string url = "url = \"nats://x\"\n";
  EXPECT_TRUE(has(refusal(sink + url + "topology = \"declare\""), "sink.a.stream"));
  EXPECT_TRUE(has(refusal(sink + url + "subject = \"a b\""), "subject"));
  EXPECT_EQ(refusal(sink + url), "");
  const std::string source = "[source.a]\ntype = \"nats\"\n" + url;
  EXPECT_TRUE(has(refusal(source), "source.a.stream"));
  EXPECT_TRUE(has(refusal(source + "stream = \"s\""), "source.a.consumer"));
  EXPECT_EQ(refusal(source + "stream = \"s\"\nconsumer = \"c\""), "");
}

TEST(BrokerConfig, that_cannot_be_is_refused_with_its_line_and_key) {
  const std::string sink = "[sink.a]\ntype = \"rabbitmq\"\n";
  EXPECT_TRUE(has(refusal(sink), "sink.a.url"));
  EXPECT_TRUE(has(refusal(sink + "url = \"http://x\""), "twinbox.toml:5: sink.a.url"));
  EXPECT_TRUE(has(refusal(sink + "url = \"amqp://me:s3cr3t@x\""), "contains a password"));
  EXPECT_FALSE(has(refusal(sink + "url = \"amqp://me:s3cr3t@x\""), "s3cr3t@"));
  const std::string source = "[source.a]\nurl = \"amqp://x\"\n";
  EXPECT_TRUE(has(refusal(source), "source.a.queue"));
  EXPECT_TRUE(has(refusal(source + "queue = \"q\"\nqueue_type = \"stack\""), "quorum"));
  EXPECT_TRUE(has(refusal(source + "queue = \"q\"\nstore = \"b\""), "source.a.store"));
  EXPECT_TRUE(has(refusal(source + "queue = \"q\"\nca_file = \"x\""), "amqps"));
  EXPECT_EQ(refusal(source + "queue = \"q\""), "");
}

TEST(BrokerConfig, of_kafka_is_read_and_can_be_made) {
  const Config config = parse(R"(
    [sink.events]
    type = "kafka"
    url = "one:9092,two:9092"
    topic = "events"
    settings = { "security.protocol" = "sasl_ssl", "sasl.mechanism" = "PLAIN", "sasl.username" = "me", "sasl.password" = "env:SECRET" }
    [[route]]
    sink = "events"
    [source.orders]
    type = "kafka"
    url = "one:9092"
    topics = ["orders", "returns"]
    group = "billing"
    from_beginning = false
    dead_letter_topic = "dead_letter"
  )",
                              {{"SECRET", "tops3cret"}});
  const SinkConfig& sink = config.sinks.at(0);
  EXPECT_TRUE(sink.is_broker());
  EXPECT_EQ(sink.topic, "events");
  EXPECT_EQ(sink.broker.settings.at("sasl.password"), "tops3cret");
  const SourceConfig& source = config.sources.at(0);
  EXPECT_EQ(source.kind, SourceConfig::Kind::kafka);
  EXPECT_EQ(source.topics.size(), 2u);
  EXPECT_FALSE(source.from_beginning);
  EXPECT_EQ(source.dead_letter_topic, "dead_letter");
  EXPECT_TRUE(check_config(config).empty());
}

TEST(BrokerConfig, of_kafka_that_cannot_be_is_refused_with_its_line_and_key) {
  const std::string sink = "[sink.a]\ntype = \"kafka\"\n";
  const std::string url = "url = \"x:9092\"\n";
  EXPECT_TRUE(has(refusal(sink), "sink.a.url"));
  EXPECT_TRUE(has(refusal(sink + url + "topic = \"a b\""), "'a b'"));
  EXPECT_TRUE(has(refusal(sink + url + "settings = { acks = \"1\" }"), "acks"));
  const std::string secret =
      refusal(sink + url +
              R"(settings = { "security.protocol" = "sasl_ssl", "sasl.password" = "tops3cret" })");
  EXPECT_TRUE(has(secret, "sasl.password is a secret")) << secret;
  EXPECT_FALSE(has(secret, "tops3cret")) << secret;
  EXPECT_EQ(refusal(sink + url), "");
  const std::string twice =
      refusal(sink + url + "ca_file = \"a.pem\"\n" +
              R"(settings = { "security.protocol" = "ssl", "ssl.ca.location" = "b.pem" })");
  EXPECT_TRUE(has(twice, "ca_file: settings has ssl.ca.location")) << twice;
  const std::string source = "[source.a]\ntype = \"kafka\"\n" + url;
  EXPECT_TRUE(has(refusal(source), "source.a.topics"));
  EXPECT_TRUE(has(refusal(source + "topics = [\"t\"]"), "source.a.group"));
  for (const std::string& section : {sink + url, source + "topics = [\"t\"]\ngroup = \"g\"\n"}) {
    EXPECT_TRUE(has(refusal(section + "topology = \"declare\""), ".a.topology")) << section;
    EXPECT_EQ(refusal(section + "topology = \"check\""), "");
  }
  const std::string consumer_only = refusal(
      source + "topics = [\"t\"]\ngroup = \"g\"\n" +
      R"(settings = { "session.timeout.ms" = "400000", "max.poll.interval.ms" = "300000" })");
  EXPECT_TRUE(has(consumer_only, "max.poll.interval.ms")) << consumer_only;
  EXPECT_EQ(refusal(source + "topics = [\"t\"]\ngroup = \"g\""), "");
}

/// Passed over, it would be missed: a sink whose type was forgotten would log what it was to send.
TEST(BrokerConfig, with_a_key_of_another_type_is_refused_and_says_whose_it_is) {
  EXPECT_EQ(
      refusal("[sink.a]\nurl = \"https://x\""),
      "twinbox.toml:4: sink.a.url: type = \"log\" does not use it; http, rabbitmq, nats, kafka "
      "do");
  const std::string rabbitmq = "[source.a]\nurl = \"amqp://x\"\nqueue = \"q\"\n";
  EXPECT_TRUE(has(refusal(rabbitmq + "max_deliver = 3"), "source.a.max_deliver"));
  EXPECT_TRUE(has(refusal(rabbitmq + "credentials_file = \"x\""), "source.a.credentials_file"));
  const std::string kafka =
      "[source.a]\ntype = \"kafka\"\nurl = \"x:9092\"\ntopics = [\"t\"]\ngroup = \"g\"\n";
  EXPECT_TRUE(has(refusal(kafka + "heartbeat = \"5s\""), "source.a.heartbeat"));
  EXPECT_EQ(refusal("[sink.a]\ntype = \"htpp\"\nurl = \"https://x\"").find("does not use"),
            std::string::npos)
      << "which type was meant is not known";
}

TEST(BrokerConfig, of_a_sink_is_refused_within_a_request) {
  EXPECT_TRUE(has(refusal(R"(
    [sink.a]
    type = "rabbitmq"
    url = "amqp://x"
    [[event]]
    name = "order"
    mode = "inline"
    sink = "a"
  )"),
                  "called inline"));
}

}  // namespace
}  // namespace twinbox::app
