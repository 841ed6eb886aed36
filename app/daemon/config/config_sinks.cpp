// Reads sinks and sources.
#include <span>

#include "daemon/config/config_sections.hpp"
#include "daemon/config/config_validation.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds year = 24h * 365;

/// A key that only some types use, and these types, as in docs/reference/configuration.md.
struct Use {
  std::string_view key;
  std::string_view types;
};

constexpr Use broker_uses[] = {
    {"heartbeat", "rabbitmq, nats"}, {"stream", "nats"},      {"subjects", "nats"},
    {"retention", "nats"},           {"replicas", "nats"},    {"max_age", "nats"},
    {"credentials_file", "nats"},    {"monitor_url", "nats"}, {"settings", "kafka"}};

constexpr Use sink_uses[] = {{"timeout", "http, command, rabbitmq, nats, kafka"},
                             {"dead_on", "http, command"},
                             {"url", "http, rabbitmq, nats, kafka"},
                             {"method", "http"},
                             {"headers", "http"},
                             {"form", "http, rabbitmq, nats, kafka"},
                             {"secrets", "http"},
                             {"done_on", "http"},
                             {"per_host", "http"},
                             {"connect_timeout", "http, rabbitmq, nats, kafka"},
                             {"allow", "http"},
                             {"ca_file", "http, rabbitmq, nats, kafka"},
                             {"proxy", "http"},
                             {"command", "command"},
                             {"directory", "command"},
                             {"variables", "command"},
                             {"kill_after", "command"},
                             {"store", "inbox"},
                             {"source", "inbox"},
                             {"exchange", "rabbitmq"},
                             {"exchange_type", "rabbitmq"},
                             {"routing_key", "rabbitmq"},
                             {"topology", "rabbitmq, nats, kafka"},
                             {"max_bytes", "rabbitmq, nats, kafka"},
                             {"certificate_file", "http, rabbitmq, nats, kafka"},
                             {"key_file", "http, rabbitmq, nats, kafka"},
                             {"subject", "nats"},
                             {"subject_prefix", "nats"},
                             {"topic", "kafka"}};

constexpr Use source_uses[] = {{"queue", "rabbitmq"},
                               {"queue_type", "rabbitmq"},
                               {"bindings", "rabbitmq"},
                               {"dead_letter_exchange", "rabbitmq"},
                               {"consumer", "nats"},
                               {"filter", "nats"},
                               {"ack_wait", "nats"},
                               {"max_deliver", "nats"},
                               {"dead_letter_subject", "nats"},
                               {"topics", "kafka"},
                               {"group", "kafka"},
                               {"from_beginning", "kafka"},
                               {"dead_letter_topic", "kafka"}};

/// Refuses keys that the type ignores.
void refuse_idle(TableReader& table, std::span<const Use> uses, std::string_view type) {
  if (table.refused("type")) return;  // the intended type is unknown
  for (const auto& [key, types] : uses) {
    if (!table.given(key) || types.find(type) != std::string_view::npos) continue;
    table.refuse(key, "type = \"" + std::string{type} + "\" does not use it; " +
                          std::string{types} + (types.find(',') == types.npos ? " does" : " do"));
  }
}

/// Refuses a password in the file; it belongs in the environment or a separate file. In a NATS
/// address, a user without a password is a token.
void refuse_password(TableReader& table, const toml::table* source) {
  const auto* written = source == nullptr ? nullptr : source->get_as<std::string>("url");
  if (written == nullptr) return;
  const std::string& url = written->get();
  const bool nats = url.starts_with("nats://") || url.starts_with("tls://");
  const bool token = nats && url.find('@') != std::string::npos;
  if (!token && !holds_password(url)) return;
  table.refuse("url",
               "contains a password; read the whole address from \"env:NAME\" or \"file:path\"");
}

/// Refuses secrets among the settings of Kafka's client library.
void refuse_secrets(TableReader& table, const toml::table* source) {
  const auto* settings = source == nullptr ? nullptr : source->get_as<toml::table>("settings");
  if (settings == nullptr) return;
  for (const char* name : {"sasl.password", "ssl.key.password", "ssl.key.pem",
                           "ssl.keystore.password", "sasl.oauthbearer.client.secret"}) {
    const auto* written = settings->get_as<std::string>(name);
    if (written == nullptr) continue;
    if (written->get().starts_with("env:") || written->get().starts_with("file:")) continue;
    table.refuse("settings",
                 std::string{name} + " is a secret; read it from \"env:NAME\" or \"file:path\"");
  }
}

/// Kafka ignores this key.
void refuse_declare(TableReader& table) {
  table.refuse("topology",
               "Kafka topics cannot be declared here; create them on the cluster, or let the "
               "cluster create them");
}

/// Reads all keys except `url`, `ca_file` and `connect_timeout`.
void read_broker(TableReader& table, BrokerConfig& broker) {
  table.text("certificate_file", broker.certificate_file);
  table.text("key_file", broker.key_file);
  table.text("credentials_file", broker.credentials_file);
  table.text("monitor_url", broker.monitor_url);
  table.pairs("settings", broker.settings);
  table.duration("heartbeat", broker.heartbeat, 1s, 1h);
  table.choice("topology", broker.declare, {{"check", false}, {"declare", true}});
}

void read_stream(TableReader& table, StreamConfig& stream) {
  using Retention = StreamConfig::Retention;
  table.text("stream", stream.name);
  table.texts("subjects", stream.subjects);
  table.choice("retention", stream.retention,
               {{"limits", Retention::limits},
                {"interest", Retention::interest},
                {"work_queue", Retention::work_queue}});
  table.integer("replicas", stream.replicas, 1, 5);
  table.duration("max_age", stream.max_age, 0ms, 100 * year);
}

void read_http_sink(TableReader& table, SinkConfig& sink) {
  using Form = SinkConfig::Form;
  table.text_or_secret("url", sink.url);
  table.text("method", sink.method);
  table.pairs("headers", sink.headers);
  table.choice("form", sink.form,
               {{"automatic", Form::automatic},
                {"raw", Form::raw},
                {"binary", Form::binary},
                {"structured", Form::structured}});
  table.secrets("secrets", sink.secrets);
  table.integers("done_on", sink.done_on, 100, 599);
  table.integer("per_host", sink.per_host, 1, 10'000);
  table.duration("connect_timeout", sink.connect_timeout, 1ms, 1h);
  table.texts("allow", sink.allow);
  table.text("ca_file", sink.ca_file);
  table.text("proxy", sink.proxy);
}

}  // namespace

void read_sink(TableReader& table, SinkConfig& sink, const toml::table* source) {
  using Kind = SinkConfig::Kind;
  table.choice("type", sink.kind,
               {{"http", Kind::http},
                {"command", Kind::command},
                {"log", Kind::log},
                {"inbox", Kind::inbox},
                {"rabbitmq", Kind::rabbitmq},
                {"nats", Kind::nats},
                {"kafka", Kind::kafka}});
  read_http_sink(table, sink);
  table.duration("timeout", sink.timeout, 1ms, 24h);
  if (std::vector<int> codes; table.integers("dead_on", codes, 1, 599)) {
    sink.dead_on = std::move(codes);
  }
  table.texts("command", sink.command);
  table.text("directory", sink.directory);
  table.pairs("variables", sink.variables);
  table.duration("kill_after", sink.kill_after, 0ms, 1h);
  table.text("store", sink.store);
  table.text("source", sink.source);
  read_broker(table, sink.broker);
  table.text("exchange", sink.exchange);
  table.text("exchange_type", sink.exchange_type);
  table.text("routing_key", sink.routing_key);
  table.integer("max_bytes", sink.max_bytes, 1, 1024 * 1024 * 1024);
  read_stream(table, sink.stream);
  table.text("subject", sink.subject);
  table.text("subject_prefix", sink.subject_prefix);
  table.text("topic", sink.topic);
  table.finish();
  constexpr std::string_view types[] = {"http",     "command", "log",  "inbox",
                                        "rabbitmq", "nats",    "kafka"};  // in the order of Kind
  const std::string_view type = types[static_cast<std::size_t>(sink.kind)];
  refuse_idle(table, sink_uses, type);
  refuse_idle(table, broker_uses, type);
  sink.broker.url = sink.url;
  sink.broker.ca_file = sink.ca_file;
  sink.broker.connect_timeout = sink.connect_timeout;
  if (sink.is_broker()) refuse_password(table, source);
  refuse_secrets(table, source);
  if (sink.kind == Kind::command && sink.command.empty()) {
    table.refuse("command", "is missing; a sink of type command needs a program: [\"/usr/bin/…\"]");
  } else if (sink.kind == Kind::http && sink.url.empty()) {
    table.refuse("url", "is missing; a sink of type http needs an address: \"https://…\"");
  } else if (sink.kind == Kind::rabbitmq && sink.url.empty()) {
    table.refuse("url",
                 "is missing; a sink of type rabbitmq needs an address: \"amqp://host:5672\"");
  } else if (sink.kind == Kind::nats && sink.url.empty()) {
    table.refuse("url", "is missing; a sink of type nats needs an address: \"nats://host:4222\"");
  } else if (sink.kind == Kind::kafka && sink.url.empty()) {
    table.refuse("url", "is missing; a sink of type kafka needs an address: \"host:9092\"");
  } else if (sink.kind == Kind::kafka && sink.broker.declare) {
    refuse_declare(table);
  } else {
    validate_sink(table, sink);
  }
}

void read_source(TableReader& table, SourceConfig& source, const toml::table* file) {
  using Kind = SourceConfig::Kind;
  table.choice("type", source.kind,
               {{"rabbitmq", Kind::rabbitmq}, {"nats", Kind::nats}, {"kafka", Kind::kafka}});
  table.text_or_secret("url", source.broker.url);
  table.text("ca_file", source.broker.ca_file);
  table.duration("connect_timeout", source.broker.connect_timeout, 1ms, 1h);
  read_broker(table, source.broker);
  table.text("store", source.store);
  table.text("source", source.source);
  table.integer("prefetch", source.prefetch, 1, 65'535);
  table.integer("max_retries", source.max_retries, 0, 1'000'000);
  table.duration("delay", source.delay, 0ms, 24h);
  table.duration("max_delay", source.max_delay, 0ms, 24h);
  table.text("queue", source.queue);
  table.choice("queue_type", source.queue_type,
               {{"quorum", std::string{"quorum"}}, {"classic", "classic"}});
  table.texts("bindings", source.bindings);
  table.text("dead_letter_exchange", source.dead_letter_exchange);
  read_stream(table, source.stream);
  table.text("consumer", source.consumer);
  table.text("filter", source.filter);
  table.duration("ack_wait", source.ack_wait, 100ms, 24h);
  table.integer("max_deliver", source.max_deliver, 0, 1'000'000);
  table.text("dead_letter_subject", source.dead_letter_subject);
  table.texts("topics", source.topics);
  table.text("group", source.group);
  table.boolean("from_beginning", source.from_beginning);
  table.text("dead_letter_topic", source.dead_letter_topic);
  table.finish();
  constexpr std::string_view types[] = {"rabbitmq", "nats", "kafka"};  // in the order of Kind
  const std::string_view type = types[static_cast<std::size_t>(source.kind)];
  refuse_idle(table, source_uses, type);
  refuse_idle(table, broker_uses, type);
  refuse_password(table, file);
  refuse_secrets(table, file);
  if (source.broker.url.empty()) {
    table.refuse(
        "url",
        "is missing; set the broker's address: amqp://host:5672, nats://host:4222 or host:9092");
  } else if (source.kind == Kind::kafka && source.broker.declare) {
    refuse_declare(table);
  } else {
    validate_source(table, source);
  }
}

}  // namespace twinbox::app
