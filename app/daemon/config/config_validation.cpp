#include "daemon/config/config_validation.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "daemon/dispatch/brokers.hpp"
#include <twinbox/intake.hpp>
#include <twinbox/sink.hpp>
#include <twinbox/webhook.hpp>

namespace twinbox::app {
namespace {

const std::string sample_address = "http://localhost/";

/// A secret that is valid for the scheme.
std::string valid_secret(std::string_view scheme) {
  return scheme == "ed25519" ? std::string(64, '0') : make_webhook_secret();
}

/// A list in which only the secret at `index` can be invalid, so that the error names its number.
std::vector<std::string> alone(const std::vector<std::string>& secrets, std::size_t index,
                               std::string_view scheme = "standard_webhooks") {
  std::vector<std::string> list(secrets.size(), valid_secret(scheme));
  list[index] = secrets[index];
  return list;
}

/// True for localhost and loopback addresses.
bool is_local_address(std::string_view url) {
  url.remove_prefix(std::min(url.find("://"), url.size() - 3) + 3);
  std::string_view host = url.substr(0, url.find_first_of("/?"));
  if (host.starts_with('[')) {
    host = host.substr(1, std::min(host.find(']'), host.size()) - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host == "localhost") return true;
  boost::system::error_code none;
  const auto address = boost::asio::ip::make_address(host, none);
  return !none && address.is_loopback();
}

void validate_http_sink(TableReader& table, const SinkConfig& sink) {
  const auto check = [&](HttpSinkOptions options) {
    if (options.url.empty()) options.url = sample_address;
    options.check();
  };
  table.attempt("url", [&] { check({.url = sink.url}); });
  if (!table.refused("url") && is_local_address(sink.url) && sink.allow.empty() &&
      sink.proxy.empty()) {
    table.refuse("url",
                 "is an address of this machine, and only public addresses are allowed by default; "
                 "add allow = [\"127.0.0.1\", \"::1\"]");
  }
  table.attempt("method", [&] { check({.url = {}, .method = sink.method}); });
  for (const auto& [name, value] : sink.headers) {
    table.attempt("headers", [&, &n = name, &v = value] {
      check({.url = {}, .headers = HttpHeaders{{n, v}}});
    });
  }
  table.attempt("done_on", [&] {
    check({.url = {}, .done_on = {sink.done_on.begin(), sink.done_on.end()}});
  });
  const std::vector<int> dead_on = sink.dead_on.value_or(std::vector<int>{});
  table.attempt("dead_on", [&] {
    check({.url = {}, .dead_on = {dead_on.begin(), dead_on.end()}});
  });
  for (std::size_t i = 0; i < sink.secrets.size(); ++i) {
    table.attempt("secrets", [&] { check({.url = {}, .secrets = alone(sink.secrets, i)}); });
  }
  for (const std::string& network : sink.allow) {
    table.attempt("allow", [&] { HttpClientOptions{.allow = {network}}.check(); });
  }
  table.attempt("key_file", [&] {
    HttpClientOptions{.certificate_file = sink.broker.certificate_file,
                      .key_file = sink.broker.key_file}
        .check();
  });
  if (!sink.proxy.empty()) {
    table.attempt("proxy", [&] { HttpClientOptions{.proxy = sink.proxy}.check(); });
  }
}

void validate_command_sink(TableReader& table, const SinkConfig& sink) {
  const std::vector<std::string> sample_command{"true"};
  table.attempt("command", [&] { command_sink({.command = sink.command}); });
  table.attempt("directory",
                [&] { command_sink({.command = sample_command, .directory = sink.directory}); });
  const std::vector<int> dead_on = sink.dead_on.value_or(std::vector<int>{});
  table.attempt("dead_on", [&] {
    command_sink({.command = sample_command, .dead_on = {dead_on.begin(), dead_on.end()}});
  });
  for (const auto& variable : sink.variables) {
    table.attempt("variables",
                  [&] { command_sink({.command = sample_command, .variables = {variable}}); });
  }
}

/// A valid sample address for a sink or a source of this kind.
template <class Kind>
std::string sample_broker(Kind kind) {
  if (kind == Kind::kafka) return "localhost:9092";
  return kind == Kind::nats ? "nats://localhost" : "amqp://localhost";
}

/// Checks the connection alone, then everything else, to attribute problems to the right keys.
void validate_broker_sink(TableReader& table, const SinkConfig& sink) {
  const bool nats = sink.kind == SinkConfig::Kind::nats;
  SinkConfig only_broker{.name = sink.name, .kind = sink.kind, .broker = sink.broker};
  only_broker.broker.declare = false;
  table.attempt("url", [&] { make_broker_sink(only_broker, {}); });
  SinkConfig other = sink;
  other.broker = {.url = sample_broker(sink.kind)};
  other.broker.declare = sink.broker.declare;
  table.attempt(nats && sink.broker.declare && sink.stream.name.empty() ? "stream" : "",
                [&] { make_broker_sink(other, {}); });
}

SignatureScheme scheme_of(const WebhookConfig& webhook) {
  if (webhook.scheme == "hmac") {
    return HmacSignature{.header = "signature", .hash = mac_hash(webhook.algorithm)};
  }
  return signature_scheme(webhook.scheme);
}

}  // namespace

void validate_store(TableReader& table, const StoreConfig& store) {
  const auto attempt = [&](std::string_view key, StoreConfig only) {
    only.connections = store.connections;
    table.attempt(key, [&] { const Store opened{only.definition()}; });
  };
  attempt("", {.name = store.name, .url = "sqlite::memory:"});
  attempt("url", {.url = store.url});
  if (store.inbox_require_synchronous)
    attempt("inbox_require_synchronous", {.url = store.url, .inbox_require_synchronous = true});
  attempt("schema", {.url = "sqlite::memory:", .schema = store.schema});
  attempt("outbox_table", {.url = "sqlite::memory:", .outbox_table = store.outbox_table});
  attempt("inbox_table", {.url = "sqlite::memory:", .inbox_table = store.inbox_table});
}

void validate_sink(TableReader& table, const SinkConfig& sink) {
  if (sink.kind == SinkConfig::Kind::http) validate_http_sink(table, sink);
  if (sink.kind == SinkConfig::Kind::command) validate_command_sink(table, sink);
  if (sink.is_broker()) validate_broker_sink(table, sink);
  if (!sink.source.empty()) table.attempt("source", [&] { const Source source{sink.source}; });
}

void validate_source(TableReader& table, const SourceConfig& source) {
  const AcceptCall no_inbox = [](std::span<const Arrival>) { return std::vector<Accepted>{}; };
  const bool nats = source.kind == SourceConfig::Kind::nats;
  const bool kafka = source.kind == SourceConfig::Kind::kafka;
  SourceConfig only_broker{.name = source.name, .kind = source.kind, .broker = source.broker};
  only_broker.queue = "queue";
  only_broker.stream = {.name = "stream", .subjects = {"subject"}};
  only_broker.consumer = "consumer";
  only_broker.topics = {"topic"};
  only_broker.group = "group";
  table.attempt("url", [&] { make_broker_source(only_broker, no_inbox, {}); });
  SourceConfig other = source;
  other.broker = {.url = sample_broker(source.kind)};
  other.broker.declare = source.broker.declare;
  const char* key = "";
  if (nats && source.consumer.empty()) key = "consumer";
  if (nats && source.stream.name.empty()) key = "stream";
  if (kafka && source.group.empty()) key = "group";
  if (kafka && source.topics.empty()) key = "topics";
  if (!nats && !kafka && source.queue.empty()) key = "queue";
  table.attempt(key, [&] { make_broker_source(other, no_inbox, {}); });
}

void validate_webhook(TableReader& table, const WebhookConfig& webhook) {
  const SignatureScheme scheme = scheme_of(webhook);
  if (webhook.scheme == "none" && !webhook.secrets.empty()) {
    table.refuse("secrets", "the scheme none uses no secret; remove it");
  } else {
    for (std::size_t i = 0; i < webhook.secrets.size(); ++i) {
      table.attempt("secrets", [&] {
        const SignatureVerifier made{scheme, alone(webhook.secrets, i, webhook.scheme)};
      });
    }
  }
  const std::vector<std::string> sample_secret(webhook.scheme == "none" ? 0 : 1,
                                               valid_secret(webhook.scheme));
  if (webhook.scheme == "hmac" && !table.refused("timestamp_field")) {
    const HmacSignature hmac{.header = "signature",
                             .timestamp_header = webhook.timestamp_header,
                             .signature_field = webhook.signature_field,
                             .timestamp_field = webhook.timestamp_field,
                             .signed_content = webhook.signed_content};
    table.attempt("signed_content", [&] { const SignatureVerifier made{hmac, sample_secret}; });
  }
  const auto attempt = [&](std::string_view key, const std::string& name,
                           std::optional<ValueFrom> WebhookEndpoint::*member,
                           const std::string& text) {
    table.attempt(key, [&] {
      WebhookEndpoint endpoint{
          .name = name, .scheme = scheme, .secrets = sample_secret, .accept = [](auto) {
            return std::vector<Accepted>{};
          }};
      if (!text.empty()) endpoint.*member = ValueFrom::parse(text);
      const WebhookIntake made{{std::move(endpoint)}};
    });
  };
  if (!table.refused("verify_tokens")) {
    table.attempt("handshake", [&] {
      WebhookEndpoint endpoint{
          .name = "webhook", .scheme = scheme, .secrets = sample_secret, .accept = [](auto) {
            return std::vector<Accepted>{};
          }};
      endpoint.handshake = handshake_of(webhook);
      const WebhookIntake made{{std::move(endpoint)}};
    });
  }
  attempt("", webhook.name, &WebhookEndpoint::id, "");
  attempt("id", "webhook", &WebhookEndpoint::id, webhook.id);
  attempt("topic", "webhook", &WebhookEndpoint::topic, webhook.topic);
  attempt("source", "webhook", &WebhookEndpoint::source, webhook.source);
}

void validate_subscription(TableReader& table, const SubscriptionConfig& subscription) {
  table.attempt(subscription.stored.empty() ? "topic" : "stored", [&] {
    const Topic topic{subscription.stored.empty() ? subscription.topic : subscription.stored};
  });
  table.attempt("route", [&] {
    const SidecarIntake made{{{.pubsub = subscription.name,
                               .topic = subscription.topic,
                               .route = subscription.route,
                               .take = [](const Arrival&) { return HttpResponse{}; }}}};
  });
}

void validate_address(TableReader& table, std::string_view key, const std::string& address) {
  table.attempt(key, [&] { http_sink(std::make_shared<HttpClient>(), {.url = address}); });
}

MacHash mac_hash(const std::string& algorithm) {
  if (algorithm == "sha1") return MacHash::sha1;
  return algorithm == "sha512" ? MacHash::sha512 : MacHash::sha256;
}

Handshake handshake_of(const WebhookConfig& webhook) {
  if (webhook.handshake == "cloudevents") {
    return CloudEventsHandshake{webhook.allowed_origins, webhook.allowed_rate};
  }
  if (webhook.handshake == "meta") return MetaHandshake{webhook.verify_tokens};
  if (webhook.handshake == "zoom") return ZoomHandshake{};
  if (webhook.handshake == "graph") return GraphHandshake{};
  return {};
}

}  // namespace twinbox::app
