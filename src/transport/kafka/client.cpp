#include "transport/kafka/client.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/text.hpp"

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;

/// Each is set by an option, or by the guarantees of sinks and sources.
constexpr std::array<std::string_view, 17> decided = {"bootstrap.servers",
                                                      "metadata.broker.list",
                                                      "acks",
                                                      "request.required.acks",
                                                      "enable.idempotence",
                                                      "transactional.id",
                                                      "delivery.timeout.ms",
                                                      "message.timeout.ms",
                                                      "message.max.bytes",
                                                      "group.id",
                                                      "enable.auto.commit",
                                                      "enable.auto.offset.store",
                                                      "auto.offset.reset",
                                                      "enable.partition.eof",
                                                      "enable.gapless.guarantee",
                                                      "socket.connection.setup.timeout.ms",
                                                      "client.software.name"};

/// Defaults for both; the user may override them.
const Settings& default_settings() {
  static const Settings settings = {{"client.id", "twinbox"},
                                    {"socket.keepalive.enable", "true"},
                                    {"socket.nagle.disable", "true"},
                                    // Detect a new topic soon after its creation.
                                    {"topic.metadata.refresh.interval.ms", "10000"},
                                    {"reconnect.backoff.max.ms", "2000"}};
  return settings;
}

void set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  std::array<char, 512> error{};
  if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error.data(), error.size()) ==
      RD_KAFKA_CONF_OK) {
    return;
  }
  throw std::invalid_argument("settings: " + name + ": " + error.data());
}

/// Relevant messages come as error events; the rest must not go to standard error.
void no_log(const rd_kafka_t*, int, const char*, const char*) {}

/// They would be ignored, and their protection would be missing.
void refuse_unused_settings(const Settings& settings) {
  const auto found = settings.find("security.protocol");
  std::string protocol = found == settings.end() ? "plaintext" : found->second;
  std::ranges::transform(protocol, protocol.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool tls = protocol == "ssl" || protocol == "sasl_ssl";
  const bool sasl = protocol.starts_with("sasl_");
  for (const auto& [name, value] : settings) {
    if ((tls || !name.starts_with("ssl.")) && (sasl || !name.starts_with("sasl."))) continue;
    throw std::invalid_argument("settings: " + name + " is of no use with security.protocol=" +
                                protocol + "; ssl, sasl_ssl or sasl_plaintext use it");
  }
}

}  // namespace

int milliseconds(Duration time) noexcept {
  constexpr std::chrono::milliseconds longest = 24h;
  return static_cast<int>(
      std::clamp(std::chrono::ceil<std::chrono::milliseconds>(time), 0ms, longest).count());
}

std::string display_name(const KafkaConnection& connection) {
  return "kafka " + connection.brokers;
}

void check_topic(std::string_view option, std::string_view topic) {
  const bool good = std::ranges::all_of(topic, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  });
  if (good && !topic.empty() && topic.size() <= 249 && topic != "." && topic != "..") return;
  throw std::invalid_argument(std::string{option} + " '" + truncate_error(topic.substr(0, 60)) +
                              "' cannot be a topic of Kafka: 1 to 249 letters, digits, '.', '_' "
                              "and '-'");
}

void check(const KafkaConnection& connection) {
  if (connection.brokers.find_first_not_of(" ,") == std::string::npos) {
    throw std::invalid_argument("brokers is missing: host:9092, several with commas between");
  }
  if (connection.connect_timeout <= Duration::zero()) {
    throw std::invalid_argument("connect_timeout must be longer than zero");
  }
  if (connection.max_reconnect_delay <= Duration::zero()) {
    throw std::invalid_argument("max_reconnect_delay must be longer than zero");
  }
  for (const auto& [name, value] : connection.settings) {
    if (std::ranges::find(decided, name) == decided.end()) continue;
    throw std::invalid_argument("settings: " + name +
                                " is decided by the options, because guarantees rest on it");
  }
  refuse_unused_settings(connection.settings);
  // Conflicting settings, and unreadable certificates, are detected only in a handle; without an
  // address it does not connect.
  KafkaConnection nowhere = connection;
  nowhere.brokers.clear();
  open(RD_KAFKA_PRODUCER, configure(nowhere, {{"enable.idempotence", "true"}}));
}

Owned<rd_kafka_conf_t> configure(const KafkaConnection& connection, const Settings& ours) {
  Owned<rd_kafka_conf_t> conf{rd_kafka_conf_new()};
  for (const auto& [name, value] : default_settings()) set(conf.get(), name, value);
  const int timeout_ms = std::max(1000, milliseconds(connection.connect_timeout));
  set(conf.get(), "socket.connection.setup.timeout.ms", std::to_string(timeout_ms));
  if (!connection.brokers.empty()) set(conf.get(), "bootstrap.servers", connection.brokers);
  for (const auto& [name, value] : connection.settings) set(conf.get(), name, value);
  for (const auto& [name, value] : ours) {
    if (!connection.settings.contains(name)) set(conf.get(), name, value);
  }
  rd_kafka_conf_set_log_cb(conf.get(), no_log);
  return conf;
}

Owned<rd_kafka_t> open(rd_kafka_type_t type, Owned<rd_kafka_conf_t> conf) {
  std::array<char, 512> error{};
  Owned<rd_kafka_t> handle{rd_kafka_new(type, conf.get(), error.data(), error.size())};
  if (!handle) throw std::invalid_argument(std::string{"settings: "} + error.data());
  static_cast<void>(conf.release());  // it belongs to the handle now
  return handle;
}

void ClusterHealth::error(rd_kafka_t* handle, int code, const char* reason) {
  if (code == RD_KAFKA_RESP_ERR__FATAL) {
    std::array<char, 512> text{};
    const rd_kafka_resp_err_t cause = rd_kafka_fatal_error(handle, text.data(), text.size());
    last_error_ = std::string{rd_kafka_err2name(cause)} + ": " + text.data();
    fatal_ = true;
    return;
  }
  needs_probe_ = true;
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    unreachable_ = true;
    if (!last_error_.empty()) return;  // the earlier reason has more detail
  }
  last_error_ = reason;
}

bool answers(rd_kafka_t* handle, Duration limit) {
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(handle, 0, nullptr, &metadata, milliseconds(limit)) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return false;
  }
  const Owned<const rd_kafka_metadata_t> owned{metadata};
  return true;
}

}  // namespace twinbox::kafka
