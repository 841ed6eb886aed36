#include "daemon/config/config_sections.hpp"

#include <algorithm>

#include "daemon/config/config_validation.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds year = 24h * 365;

/// Refuses keys that the scheme ignores: the user expects protection that they do not give.
void refuse_unused(TableReader& table, const WebhookConfig& webhook) {
  struct Used {
    std::string_view key;
    std::vector<std::string_view> by;
  };
  static const std::vector<Used> all = {{"header", {"hmac", "ed25519"}},
                                        {"header_prefix", {"standard_webhooks"}},
                                        {"prefix", {"hmac"}},
                                        {"encoding", {"hmac"}},
                                        {"algorithm", {"hmac"}},
                                        {"timestamp_header", {"hmac", "ed25519"}},
                                        {"signature_field", {"hmac"}},
                                        {"timestamp_field", {"hmac"}},
                                        {"separator", {"hmac"}},
                                        {"signed_content", {"hmac"}}};
  for (const Used& one : all) {
    if (!table.given(one.key) || std::ranges::find(one.by, webhook.scheme) != one.by.end()) {
      continue;
    }
    table.refuse(one.key, "the scheme " + webhook.scheme + " does not use it; remove it");
  }
  for (const auto& [key, handshake] : {std::pair{"allowed_origins", "cloudevents"},
                                       {"allowed_rate", "cloudevents"},
                                       {"verify_tokens", "meta"}}) {
    if (!table.given(key) || webhook.handshake == handshake) continue;
    table.refuse(key, "only handshake = \"" + std::string{handshake} + "\" uses it; remove it");
  }
  const bool timed = webhook.scheme == "stripe" || webhook.scheme == "standard_webhooks" ||
                     webhook.scheme == "slack" || webhook.scheme == "ed25519" ||
                     !webhook.timestamp_header.empty() || !webhook.timestamp_field.empty();
  if (table.given("tolerance") && !timed) {
    table.refuse("tolerance", "the scheme " + webhook.scheme + " has no timestamp; remove it");
  }
}

/// Checks the keys for a header like `t=…,v1=…`.
void check_fields(TableReader& table, const WebhookConfig& webhook) {
  if (webhook.signature_field.empty()) {
    for (const std::string_view key : {"timestamp_field", "separator"}) {
      if (!table.given(key)) continue;
      table.refuse(key, "needs signature_field, the name of the field with the signature");
    }
    return;
  }
  if (!webhook.prefix.empty()) {
    table.refuse("prefix", "cannot be combined with signature_field; remove one of them");
  }
  if (!webhook.timestamp_header.empty() && !webhook.timestamp_field.empty()) {
    table.refuse("timestamp_field", "cannot be combined with timestamp_header; remove one of them");
  }
  if (webhook.separator.size() != 1 || webhook.separator == "=") {
    table.refuse("separator", "expected one character other than =");
  }
}

}  // namespace

bool holds_password(std::string_view address) {
  std::string text;  // without blanks, to find `password = …`, too
  for (const char sign : address) {
    if (sign != ' ')
      text += sign >= 'A' && sign <= 'Z' ? static_cast<char>(sign - 'A' + 'a') : sign;
  }
  for (const std::string_view keyword : {"password=", "pwd="}) {
    if (text.find(keyword) != std::string::npos) return true;
  }
  const std::size_t scheme = text.find("://");
  if (scheme == std::string::npos) return false;
  const std::string_view rest = std::string_view{text}.substr(scheme + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const std::size_t at = authority.rfind('@');
  return at != std::string_view::npos &&
         authority.substr(0, at).find(':') != std::string_view::npos;
}

void read_server(TableReader table, ServerConfig& server) {
  table.text("listen", server.listen);
  table.texts("hosts", server.hosts);
  table.text("tls_certificate", server.tls_certificate);
  table.text("tls_key", server.tls_key);
  table.text("client_ca", server.client_ca);
  table.integer("io_threads", server.io_threads, 1, 64);
  table.integer("intake_threads", server.intake_threads, 1, 1024);
  table.integer("read_threads", server.read_threads, 1, 1024);
  table.integer("inline_threads", server.inline_threads, 1, 1024);
  table.integer("queue_size", server.queue_size, 1, 1'000'000);
  table.finish();
  const std::size_t colon = server.listen.rfind(':');
  const std::string port = colon == std::string::npos ? "" : server.listen.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(port) > 65535) {
    table.refuse("listen",
                 "expected an address and a port, like \"127.0.0.1:7117\" or \"[::]:80\"");
  }
  if (server.tls_certificate.empty() != server.tls_key.empty()) {
    table.refuse(server.tls_key.empty() ? "tls_certificate" : "tls_key",
                 "tls_certificate and tls_key must be set together; set both or neither");
  }
  if (!server.client_ca.empty() && server.tls_certificate.empty()) {
    table.refuse("client_ca", "needs TLS; set tls_certificate and tls_key");
  }
}

void read_limit(TableReader table, LimitConfig& limit) {
  constexpr std::int64_t gigabyte = 1024 * 1024 * 1024;
  table.integer("connections", limit.connections, 1, 1'000'000);
  table.integer("header_bytes", limit.header_bytes, 1024, 1024 * 1024);
  table.integer("body_bytes", limit.body_bytes, 1, gigabyte);
  table.integer("buffered_bytes", limit.buffered_bytes, 1024 * 1024, 64 * gigabyte);
  table.integer("anonymous_bytes", limit.anonymous_bytes, 1024 * 1024, 64 * gigabyte);
  table.integer("body_rate", limit.body_rate, 0, gigabyte);
  table.duration("header_timeout", limit.header_timeout, 10ms, 1h);
  table.duration("body_timeout", limit.body_timeout, 10ms, 1h);
  table.duration("request_timeout", limit.request_timeout, 10ms, 1h);
  table.duration("query_timeout", limit.query_timeout, 10ms, 1h);
  table.duration("write_timeout", limit.write_timeout, 10ms, 1h);
  table.duration("idle_timeout", limit.idle_timeout, 10ms, 24h);
  table.duration("shutdown_timeout", limit.shutdown_timeout, 0ms, 1h);
  table.finish();
  if (limit.buffered_bytes < limit.body_bytes) {
    table.refuse("buffered_bytes", "must be at least body_bytes, the size of the largest body");
  }
  if (limit.anonymous_bytes < limit.body_bytes) {
    if (table.given("anonymous_bytes")) {
      table.refuse("anonymous_bytes", "must be at least body_bytes, the size of the largest body");
    }
    limit.anonymous_bytes = limit.body_bytes;
  }
}

void read_log(TableReader table, LogConfig& log) {
  table.choice("format", log.json, {{"text", false}, {"json", true}});
  table.choice("level", log.level,
               {{"debug", LogLevel::debug},
                {"info", LogLevel::info},
                {"warning", LogLevel::warning},
                {"error", LogLevel::error}});
  table.boolean("access", log.access);
  table.boolean("messages", log.messages);
  table.finish();
}

void read_access(TableReader table, AccessConfig& access) {
  table.text("token_file", access.token_file);
  table.boolean("loopback_without_token", access.loopback_without_token);
  table.duration("session_time", access.session_time, 1min, year);
  table.duration("session_idle", access.session_idle, 1min, year);
  table.finish();
}

void read_store(TableReader table, StoreConfig& store, const toml::table* source) {
  table.text_or_secret("url", store.url);
  table.choice("boxes", store.boxes,
               {{"both", Boxes::both}, {"outbox", Boxes::outbox}, {"inbox", Boxes::inbox}});
  table.boolean("deploy", store.deploy);
  table.text("schema", store.schema);
  table.text("outbox_table", store.outbox_table);
  table.text("inbox_table", store.inbox_table);
  table.integer("connections", store.connections, 1, 1000);
  table.duration("wait_timeout", store.wait_timeout, 1ms, 1h);
  table.duration("answer_timeout", store.answer_timeout, 0ms, 24h);
  table.duration("retry_timeout", store.retry_timeout, 0ms, 1h);
  table.duration("outbox_retention", store.outbox_retention, 0ms, 100 * year);
  table.duration("inbox_retention", store.inbox_retention, 0ms, 100 * year);
  table.duration("outbox_max_age", store.outbox_max_age, 1s, 100 * year);
  table.duration("inbox_max_age", store.inbox_max_age, 1s, 100 * year);
  table.boolean("hold_keys", store.hold_keys);
  table.boolean("inbox_require_synchronous", store.inbox_require_synchronous);
  table.finish();
  const auto* written = source == nullptr ? nullptr : source->get_as<std::string>("url");
  if (written != nullptr && holds_password(written->get())) {
    table.refuse("url",
                 "contains a password; read the whole address from \"env:NAME\" or \"file:path\", "
                 "or the password from a pgpass file or SQLCMDPASSWORD");
  }
  validate_store(table, store);
}

void read_dispatch(TableReader table, DispatcherOptions& dispatch) {
  Milliseconds lease = 30s, poll = 500ms, grace = 10s;
  table.integer("workers", dispatch.workers, 1, 1024);
  table.duration("lease", lease, 1s, 24h);
  table.integer("batch", dispatch.batch, 1, 10'000);
  table.duration("poll_interval", poll, 1ms, 1h);
  table.duration("grace", grace, 0ms, 1h);
  table.integer("pollers", dispatch.pollers, 1, 256);
  table.integer("processors", dispatch.processors, 0, 1000);
  table.choice("order", dispatch.order,
               {{"round_robin", PollOrder::round_robin}, {"drain_first", PollOrder::drain_first}});
  table.choice("no_route", dispatch.no_handler,
               {{"retry", NoHandler::retry},
                {"dead", NoHandler::dead},
                {"discard", NoHandler::discard},
                {"complete", NoHandler::complete}});
  table.finish();
  dispatch.lease = lease;
  dispatch.poll_interval = poll;
  dispatch.grace = grace;
}

void read_retry(TableReader table, RetryPolicy& retry) {
  table.duration("first_delay", retry.first_delay, 0ms, year);
  table.duration("max_delay", retry.max_delay, 0ms, year);
  table.integer("max_attempts", retry.max_attempts, 1, 1'000'000);
  table.choice("jitter", retry.jitter, {{"none", Jitter::none}, {"equal", Jitter::equal}});
  table.finish();
  if (retry.first_delay > retry.max_delay) {
    table.refuse("max_delay", "must not be shorter than first_delay");
  }
}

void read_route(TableReader& table, RouteConfig& route) {
  table.text("name", route.name);
  table.choice("box", route.box, {{"outbox", BoxKind::outbox}, {"inbox", BoxKind::inbox}});
  table.text("topic", route.topic);
  table.text("sink", route.sink);
  table.text("retry", route.retry);
  table.boolean("enabled", route.enabled);
  table.finish();
}

void read_webhook(TableReader& table, WebhookConfig& webhook) {
  table.choice("scheme", webhook.scheme,
               {{"stripe", std::string{"stripe"}},
                {"github", "github"},
                {"standard_webhooks", "standard_webhooks"},
                {"slack", "slack"},
                {"shopify", "shopify"},
                {"gitlab", "gitlab"},
                {"hmac", "hmac"},
                {"ed25519", "ed25519"},
                {"graph", "graph"},
                {"bearer", "bearer"},
                {"none", "none"}});
  table.secrets("secrets", webhook.secrets);
  table.text("store", webhook.store);
  table.text("id", webhook.id);
  table.text("topic", webhook.topic);
  table.text("topic_prefix", webhook.topic_prefix);
  table.text("source", webhook.source);
  table.duration("tolerance", webhook.tolerance, 1s, 24h);
  table.text("header_prefix", webhook.header_prefix);
  table.text("header", webhook.header);
  table.text("prefix", webhook.prefix);
  table.choice("encoding", webhook.encoding, {{"hex", std::string{"hex"}}, {"base64", "base64"}});
  table.choice("algorithm", webhook.algorithm,
               {{"sha1", std::string{"sha1"}}, {"sha256", "sha256"}, {"sha512", "sha512"}});
  table.text("timestamp_header", webhook.timestamp_header);
  table.text("signature_field", webhook.signature_field);
  table.text("timestamp_field", webhook.timestamp_field);
  table.text("separator", webhook.separator);
  table.text("signed_content", webhook.signed_content);
  table.choice("handshake", webhook.handshake,
               {{"cloudevents", std::string{"cloudevents"}},
                {"meta", "meta"},
                {"zoom", "zoom"},
                {"graph", "graph"}});
  table.texts("allowed_origins", webhook.allowed_origins);
  table.integer("allowed_rate", webhook.allowed_rate, 0, 1'000'000);
  table.secrets("verify_tokens", webhook.verify_tokens);
  table.finish();
  if (webhook.scheme.empty()) {
    if (!table.refused("scheme")) {
      table.refuse("scheme", "is missing; choose how senders authenticate");
    }
    return;
  }
  if (webhook.scheme != "none" && webhook.secrets.empty() && !table.refused("secrets")) {
    table.refuse("secrets", "is missing; set [\"env:NAME\"], or several during a rotation");
  }
  if (webhook.scheme == "hmac" && webhook.header.empty()) {
    table.refuse("header", "is missing; name the header with the signature");
  }
  refuse_unused(table, webhook);
  if (webhook.scheme == "hmac") check_fields(table, webhook);
  validate_webhook(table, webhook);
}

void read_subscription(TableReader& table, SubscriptionConfig& subscription) {
  table.text("name", subscription.name);
  table.text("topic", subscription.topic);
  table.text("route", subscription.route);
  table.text("stored", subscription.stored);
  table.text("store", subscription.store);
  table.finish();
  if (subscription.name.empty())
    table.refuse("name", "is missing; name the sidecar's broker component");
  if (subscription.topic.empty()) {
    table.refuse("topic", "is missing; name the broker's topic");
  } else {
    validate_subscription(table, subscription);
  }
  constexpr std::string_view prefix = "/sidecar/";
  const std::string_view route = subscription.route;
  if (!route.starts_with(prefix) || route.size() == prefix.size() ||
      route.find_first_of("/?", prefix.size()) != std::string_view::npos) {
    table.refuse("route", "expected a path like /sidecar/orders, with one word after /sidecar/");
  }
}

void read_tracing(TableReader table, TracingConfig& tracing) {
  table.text("endpoint", tracing.endpoint);
  table.text("service", tracing.service);
  table.integer("queue", tracing.queue, 1, 1'000'000);
  table.finish();
  if (!tracing.endpoint.empty()) validate_address(table, "endpoint", tracing.endpoint);
}

void read_health(TableReader table, HealthThresholds& health) {
  table.integer("pending", health.pending, 0, 1'000'000);
  table.integer("dead", health.dead, 0, 1'000'000);
  Milliseconds stalled = std::chrono::duration_cast<Milliseconds>(health.stalled);
  table.duration("stalled", stalled, 0ms, 365 * 24h);
  if (stalled > 0ms && stalled < 1s)
    table.refuse("stalled", "must be 1s or longer, or 0s to turn it off");
  health.stalled = stalled;
  table.finish();
}

void read_dashboard(TableReader table, DashboardConfig& dashboard) {
  table.boolean("enabled", dashboard.enabled);
  table.texts("redact", dashboard.redact);
  table.text("trace_link", dashboard.trace_link);
  table.finish();
  for (const std::string& pointer : dashboard.redact) {
    bool good = pointer.starts_with('/');
    for (std::size_t i = 0; i < pointer.size(); ++i) {
      if (pointer[i] == '~')
        good = good && i + 1 < pointer.size() && (pointer[i + 1] == '0' || pointer[i + 1] == '1');
    }
    if (!good) {
      table.refuse("redact",
                   "\"" + pointer + "\" is not a JSON pointer; expected one like \"/card/number\"");
    }
  }
  const std::string& link = dashboard.trace_link;
  const bool address = link.starts_with("http://") || link.starts_with("https://");
  if (!link.empty() && (!address || link.find("{trace_id}") == std::string::npos)) {
    table.refuse("trace_link",
                 "expected an address with {trace_id} in it, like "
                 "\"https://traces.example/trace/{trace_id}\"");
  }
}

void read_intake(TableReader table, IntakeConfig& intake) {
  table.texts("keep_headers", intake.keep_headers);
  table.integer("max_events", intake.max_events, 1, 100'000);
  table.duration("retry_after", intake.retry_after, 1s, 1h);
  table.duration("max_keyed_delay", intake.max_keyed_delay, 0s, 24h * 365);
  table.finish();
}

void read_event(TableReader& table, EventConfig& event) {
  table.text("name", event.name);
  table.integer("version", event.version, 1, 1'000'000);
  table.choice("mode", event.inline_mode, {{"accept", false}, {"inline", true}});
  table.text("sink", event.sink);
  table.text("store", event.store);
  table.finish();
  if (event.name.empty()) table.refuse("name", "is missing; name the event");
  if (event.inline_mode && event.sink.empty()) {
    table.refuse("sink", "is missing; mode = \"inline\" needs the sink that it calls");
  }
}

}  // namespace twinbox::app
