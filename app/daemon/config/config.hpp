// The configuration: one TOML file; environment variables override every key.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>
#include <twinbox/stores.hpp>

namespace twinbox::app {

using Milliseconds = std::chrono::milliseconds;

struct ServerConfig {
  std::string listen = "127.0.0.1:7117";
  std::vector<std::string> hosts = {};  ///< additional names accepted in Host and Origin
  std::string tls_certificate = {};     ///< PEM files; both or none
  std::string tls_key = {};
  std::string client_ca = {};  ///< PEM: clients need a certificate of one of these CAs
  int io_threads = 1;          ///< for reading and writing sockets
  int intake_threads = 64;     ///< concurrent requests that store messages
  int read_threads = 8;        ///< concurrent requests that read or operate
  int inline_threads = 32;     ///< concurrent events handled within their request
  int queue_size = 1024;       ///< waiting requests of each of these kinds

  bool operator==(const ServerConfig&) const = default;
};

struct LimitConfig {
  std::size_t connections = 8000;
  std::size_t header_bytes = 16 * 1024;
  std::size_t body_bytes = 1024 * 1024;
  std::size_t buffered_bytes = 256 * 1024 * 1024;  ///< total of the bodies of requests with a token
  std::size_t anonymous_bytes = 64 * 1024 * 1024;  ///< total of all other bodies
  std::size_t body_rate = 1024;  ///< minimum rate of a body in bytes per second; 0: none
  Milliseconds header_timeout = std::chrono::seconds{10};
  Milliseconds body_timeout = std::chrono::seconds{30};
  Milliseconds request_timeout = std::chrono::seconds{30};
  Milliseconds query_timeout = std::chrono::seconds{10};  ///< for the query of a read request
  Milliseconds write_timeout = std::chrono::seconds{30};
  Milliseconds idle_timeout = std::chrono::seconds{75};
  Milliseconds shutdown_timeout =
      std::chrono::seconds{20};  ///< for requests in flight after SIGTERM
};

struct LogConfig {
  bool json = false;
  LogLevel level = LogLevel::info;
  bool access = true;     ///< a line per request
  bool messages = false;  ///< a line for each enqueue, accept and handle
};

struct AccessConfig {
  std::string token_file = {};          ///< empty: `twinbox.tokens` next to the only SQLite store
  bool loopback_without_token = false;  ///< this machine may send, read, and call unsigned webhooks
  Milliseconds session_time = std::chrono::hours{7 * 24};  ///< of a browser, since its login
  Milliseconds session_idle = std::chrono::hours{8};       ///< since its last request
};

/// The boxes of a store that the daemon serves.
enum class Boxes { both, outbox, inbox };

bool serves(Boxes boxes, BoxKind kind) noexcept;

struct StoreConfig {
  std::string name = "main";
  std::string url = "sqlite:twinbox.db";
  Boxes boxes = Boxes::both;
  bool deploy = true;  ///< create or upgrade the tables at start
  std::string schema = "infra";
  std::string outbox_table = {};
  std::string inbox_table = {};
  int connections = 8;
  Milliseconds wait_timeout = std::chrono::seconds{10};
  Milliseconds answer_timeout = std::chrono::seconds{30};
  Milliseconds retry_timeout = std::chrono::seconds{5};
  std::optional<Milliseconds> outbox_retention = {};
  std::optional<Milliseconds> inbox_retention = {};
  std::optional<Milliseconds> outbox_max_age = {};
  std::optional<Milliseconds> inbox_max_age = {};
  bool hold_keys = false;                  ///< a dead letter blocks its partition key
  bool inbox_require_synchronous = false;  ///< BoxOptions::require_synchronous

  [[nodiscard]] StoreDefinition definition() const;
  bool operator==(const StoreConfig&) const = default;
};

/// The connection of a sink or a source to its broker.
struct BrokerConfig {
  std::string url = {};
  std::string ca_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
  std::string credentials_file = {};                 ///< nats
  std::string monitor_url = {};                      ///< nats
  std::map<std::string, std::string> settings = {};  ///< kafka: settings of its client library
  Milliseconds connect_timeout = std::chrono::seconds{10};
  Milliseconds heartbeat = std::chrono::seconds{30};
  bool declare = false;  ///< creates exchanges, queues …; otherwise they must exist

  bool operator==(const BrokerConfig&) const = default;
};

/// The settings of a NATS stream that is created if missing.
struct StreamConfig {
  enum class Retention { limits, interest, work_queue };
  std::string name = {};
  std::vector<std::string> subjects = {};
  Retention retention = Retention::limits;
  int replicas = 1;
  Milliseconds max_age = {};

  bool operator==(const StreamConfig&) const = default;
};

struct SinkConfig {
  enum class Kind { http, command, log, inbox, rabbitmq, nats, kafka };
  enum class Form { automatic, raw, binary, structured };
  std::string name;
  Kind kind = Kind::log;
  Milliseconds timeout = std::chrono::seconds{30};  ///< http, command
  /// http: status codes, command: exit codes. No value: the defaults; an empty list: none.
  std::optional<std::vector<int>> dead_on = {};

  // http
  std::string url = {};
  std::string method = "POST";
  std::map<std::string, std::string> headers = {};
  Form form = Form::automatic;
  std::vector<std::string> secrets = {};  ///< to sign with, all of them
  std::vector<int> done_on = {};          ///< in addition to 2xx
  int per_host = 8;                       ///< concurrent requests
  Milliseconds connect_timeout = std::chrono::seconds{10};
  std::vector<std::string> allow = {};  ///< allowed private networks
  std::string ca_file = {};
  std::string proxy = {};  // the client certificate is in `broker`

  // command
  std::vector<std::string> command = {};
  std::string directory = {};
  std::map<std::string, std::string> variables = {};
  Milliseconds kill_after = std::chrono::seconds{5};

  // inbox
  std::string store = {};   ///< empty: the only store
  std::string source = {};  ///< for messages without a source; empty: `outbox`

  // broker
  BrokerConfig broker = {};
  std::size_t max_bytes = 128U * 1024U * 1024U;

  // rabbitmq
  std::string exchange = {};
  std::string exchange_type = "topic";
  std::string routing_key = {};  ///< empty: the topic

  // nats
  StreamConfig stream = {};
  std::string subject = {};  ///< empty: the topic
  std::string subject_prefix = {};

  // kafka
  std::string topic = {};  ///< empty: the message's topic

  /// Publishes to a broker, several messages concurrently.
  [[nodiscard]] bool is_broker() const noexcept {
    return kind == Kind::rabbitmq || kind == Kind::nats || kind == Kind::kafka;
  }
};

/// A source: consumes from a broker into an inbox.
struct SourceConfig {
  enum class Kind { rabbitmq, nats, kafka };
  std::string name;
  Kind kind = Kind::rabbitmq;
  BrokerConfig broker = {};
  std::string store = {};   ///< empty: the only store
  std::string source = {};  ///< for messages without a source; empty: the name of this section
  int prefetch = 256;
  int max_retries = 5;
  Milliseconds delay = std::chrono::seconds{1};
  Milliseconds max_delay = std::chrono::minutes{1};

  // rabbitmq
  std::string queue = {};
  std::string queue_type = "quorum";
  std::vector<std::string> bindings = {};  ///< `exchange routing.key`
  std::string dead_letter_exchange = {};   ///< empty: directly to the queue `<queue>.dead`

  // nats
  StreamConfig stream = {};
  std::string consumer = {};
  std::string filter = {};  ///< empty: all subjects of the stream
  Milliseconds ack_wait = std::chrono::seconds{30};
  int max_deliver = 100;
  std::string dead_letter_subject = {};  ///< empty: `dead.<stream>.<consumer>`

  // kafka
  std::vector<std::string> topics = {};
  std::string group = {};
  bool from_beginning = true;
  std::string dead_letter_topic = {};  ///< empty: `<topic>.dead`

  bool operator==(const SourceConfig&) const = default;
};

struct RouteConfig {
  std::string name;
  BoxKind box = BoxKind::outbox;
  std::string topic = "#";  ///< pattern: words between dots, `*` one word, `#` any number
  std::string sink;
  std::string retry = {};  ///< empty: the standard policy
  bool enabled = true;
};

struct WebhookConfig {
  std::string name;
  std::string scheme;
  std::vector<std::string> secrets = {};
  std::string store = {};  ///< empty: the only store
  /// `header:…`, a JSON pointer, `fixed:…` or `signature`; empty: the default of the scheme.
  std::string id = {};
  std::string topic = {};   ///< as for the id
  std::string source = {};  ///< as for the id; empty: the endpoint's name
  std::string topic_prefix = {};
  Milliseconds tolerance = std::chrono::minutes{5};
  std::string header_prefix = "webhook-";  ///< standard_webhooks: of its three headers
  std::string header = {};                 ///< hmac, ed25519: header with the signature
  std::string prefix = {};                 ///< hmac: prefix of the signature
  std::string encoding = "hex";
  std::string algorithm = "sha256";
  std::string timestamp_header = {};  ///< hmac, ed25519
  std::string signature_field = {};   ///< hmac: field of a header with several fields
  std::string timestamp_field = {};   ///< hmac: field with the timestamp
  std::string separator = ",";        ///< hmac: separator of fields
  std::string signed_content = {};    ///< hmac: empty: `{body}` or `{timestamp}.{body}`
  std::string handshake = {};         ///< empty, `cloudevents`, `meta`, `zoom` or `graph`
  std::vector<std::string> allowed_origins = {};  ///< cloudevents
  int allowed_rate = 0;                           ///< cloudevents: per minute; 0: any
  std::vector<std::string> verify_tokens = {};    ///< meta
};

struct EventConfig {
  std::string name;
  int version = 1;
  bool inline_mode = false;  ///< the sink is called within the request
  std::string sink = {};     ///< inline
  std::string store = {};
};

/// A topic that a sidecar delivers.
struct SubscriptionConfig {
  std::string name;    ///< the sidecar's name for its broker
  std::string topic;   ///< the broker's
  std::string route;   ///< a path of this server
  std::string stored;  ///< the topic it is stored under; empty: the broker's
  std::string store = {};
};

struct IntakeConfig {
  std::vector<std::string> keep_headers = {};          ///< request headers stored with the message
  std::size_t max_events = 1000;                       ///< per batch
  Milliseconds retry_after = std::chrono::seconds{5};  ///< sent while the store is unavailable
  Milliseconds max_keyed_delay = std::chrono::hours{24};  ///< of due times with a partition key
};

struct TracingConfig {
  std::string endpoint = {};  ///< OTLP over HTTP, `http://collector:4318/v1/traces`; empty: off
  std::string service = "twinbox";
  std::size_t queue = 4096;  ///< maximum of waiting spans; more are dropped and counted

  bool operator==(const TracingConfig&) const = default;
};

struct DashboardConfig {
  bool enabled = true;                   ///< the page at `/`
  std::vector<std::string> redact = {};  ///< JSON pointers to hidden parts of payloads
  std::string trace_link = {};           ///< address of a trace, with `{trace_id}`; empty: none
};

/// The location of each key: `file:line`, or the environment variable.
using KeyLocations = std::map<std::string, std::string, std::less<>>;

struct Config {
  std::filesystem::path file = {};  ///< empty: there was none
  KeyLocations key_locations = {};
  std::vector<std::pair<std::string, std::string>> secret_files = {};  ///< key, path behind `file:`
  ServerConfig server = {};
  LimitConfig limit = {};
  LogConfig log = {};
  AccessConfig access = {};
  std::vector<StoreConfig> stores = {};  ///< at least one, sorted by name
  DispatcherOptions dispatch = {};
  std::map<std::string, RetryPolicy> retries = {};
  std::vector<SinkConfig> sinks = {};
  std::vector<RouteConfig> routes = {};  ///< in file order: the first match wins
  std::vector<SourceConfig> sources = {};
  std::vector<WebhookConfig> webhooks = {};
  std::vector<EventConfig> events = {};
  std::vector<SubscriptionConfig> subscriptions = {};
  IntakeConfig intake = {};
  TracingConfig tracing = {};
  HealthThresholds health = {};
  DashboardConfig dashboard = {};

  /// Null: unknown name.
  [[nodiscard]] const StoreConfig* find_store(std::string_view name) const;
  [[nodiscard]] const SinkConfig* find_sink(std::string_view name) const;
};

struct ConfigProblem {
  std::string where;  ///< `file:line` or `environment NAME`
  std::string key;
  std::string text;  ///< what was expected

  [[nodiscard]] std::string str() const { return where + ": " + key + ": " + text; }
};

/// All problems of a configuration.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<ConfigProblem> problems);
  [[nodiscard]] const std::vector<ConfigProblem>& problems() const noexcept { return problems_; }

 private:
  std::vector<ConfigProblem> problems_;
};

using Variables = std::map<std::string, std::string, std::less<>>;

/// The environment of this process.
Variables process_variables();

/// The content of a file named in a configuration. Empty: unreadable or too large.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;
inline constexpr std::size_t max_file_size = 16 * 1024 * 1024;
std::optional<std::string> read_whole_file(const std::string& path);

/// Without a file: the defaults and the environment. Throws ConfigError.
Config load_config(const std::optional<std::filesystem::path>& file, const Variables& variables);
/// Parses text; problems name `file`, and `read_file` reads secrets.
Config parse_config(std::string_view text, const std::filesystem::path& file,
                    const Variables& variables, const FileReader& read_file = read_whole_file);

/// Replaces the values in `config` that need a restart by those of `running`. Returns the sections
/// whose changes were ignored. Throws ConfigError for references to a store that exists only after
/// the restart.
std::vector<std::string> keep_restart_only(Config& config, const Config& running);

/// All keys, such as `store.<name>.url`; for the documentation.
std::vector<std::string> config_keys();

}  // namespace twinbox::app
