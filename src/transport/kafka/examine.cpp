#include <algorithm>
#include <charconv>

#include "transport/kafka/topic_findings.hpp"
#include "transport/kafka/wire.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using kafka::Owned;
using kafka::TopicSettings;
using Level = Finding::Level;
using Findings = std::vector<Finding>;

constexpr Duration answer_timeout = 10s;

bool on_this_machine(std::string_view host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

bool all_on_this_machine(std::string_view brokers) {
  while (!brokers.empty()) {
    const std::string_view one = brokers.substr(0, brokers.find(','));
    brokers.remove_prefix(std::min(brokers.size(), one.size() + 1));
    if (!on_this_machine(one.substr(0, one.rfind(':')))) return false;
  }
  return true;
}

void examine_address(Findings& findings, const KafkaConnection& connection) {
  const auto protocol = connection.settings.find("security.protocol");
  const bool tls = protocol != connection.settings.end() &&
                   (protocol->second.ends_with("ssl") || protocol->second.ends_with("SSL"));
  if (tls || all_on_this_machine(connection.brokers)) return;
  findings.push_back({"tls", Level::warning,
                      kafka::display_name(connection) +
                          " is reached without TLS: passwords and messages can be read on the way",
                      "set security.protocol to ssl or sasl_ssl, and the port of that listener"});
}

/// Asks about one cluster.
class TopicExaminer {
 public:
  explicit TopicExaminer(const KafkaConnection& connection)
      : display_name_(kafka::display_name(connection)), timeout_(connection.connect_timeout) {
    kafka::check(connection);
    auto conf = kafka::configure(connection, {});
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_error_cb(
        conf.get(), [](rd_kafka_t* handle, int code, const char* reason, void* self) {
          static_cast<TopicExaminer*>(self)->health_.error(handle, code, reason);
        });
    handle_ = kafka::open(RD_KAFKA_PRODUCER, std::move(conf));
  }

  bool reach(Findings& findings) {
    const bool heard = kafka::answers(handle_.get(), timeout_);
    rd_kafka_poll(handle_.get(), 0);
    if (heard) {
      findings.push_back({"reach", Level::ok, display_name_ + " answers"});
    } else {
      findings.push_back({"reach", Level::error, display_name_ + ": " + reason("no answer"),
                          "start the cluster, or mend brokers and settings"});
    }
    return heard;
  }

  /// Empty: it does not exist, and a finding says so.
  std::optional<TopicSettings> examine_topic(Findings& findings, const std::string& name) {
    std::optional<TopicSettings> topic;
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    const rd_kafka_resp_err_t asked = with_topic(name, [&](const rd_kafka_metadata_topic_t& found) {
      error = found.err;
      if (error != RD_KAFKA_RESP_ERR_NO_ERROR || found.partition_cnt == 0) return;
      topic = TopicSettings{.name = name, .replicas = found.partitions[0].replica_cnt};
      for (int i = 0; i < found.partition_cnt; ++i) {
        topic->replicas = std::min(topic->replicas, found.partitions[i].replica_cnt);
      }
    });
    if (!topic) {
      findings.push_back({"topic", Level::error,
                          "topic '" + name + "': " +
                              rd_kafka_err2str(asked == RD_KAFKA_RESP_ERR_NO_ERROR ? error : asked),
                          "make the topic, or give this user the right to it"});
    }
    if (topic) read_settings(findings, *topic);
    return topic;
  }

  /// Records that lie in a topic.
  std::int64_t count(const std::string& name) {
    std::int64_t sum = 0;
    with_topic(name, [&](const rd_kafka_metadata_topic_t& found) {
      for (int i = 0; i < found.partition_cnt; ++i) {
        std::int64_t low = 0, high = 0;
        if (rd_kafka_query_watermark_offsets(handle_.get(), name.c_str(), found.partitions[i].id,
                                             &low, &high, kafka::milliseconds(answer_timeout)) ==
            RD_KAFKA_RESP_ERR_NO_ERROR) {
          sum += high - low;
        }
      }
    });
    return sum;
  }

 private:
  [[nodiscard]] std::string reason(const std::string& otherwise) const {
    return health_.last_error().empty() ? otherwise : health_.last_error();
  }

  template <class Call>
  rd_kafka_resp_err_t with_topic(const std::string& name, Call call) {
    rd_kafka_topic_t* topic = rd_kafka_topic_new(handle_.get(), name.c_str(), nullptr);
    const rd_kafka_metadata_t* metadata = nullptr;
    const rd_kafka_resp_err_t error =
        rd_kafka_metadata(handle_.get(), 0, topic, &metadata, kafka::milliseconds(answer_timeout));
    rd_kafka_topic_destroy(topic);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
    const Owned<const rd_kafka_metadata_t> owned{metadata};
    if (metadata->topic_cnt == 1) call(metadata->topics[0]);
    return error;
  }

  void read_settings(Findings& findings, TopicSettings& topic) {
    rd_kafka_ConfigResource_t* asked =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.name.c_str());
    const Owned<rd_kafka_queue_t> queue{rd_kafka_queue_new(handle_.get())};
    rd_kafka_DescribeConfigs(handle_.get(), &asked, 1, nullptr, queue.get());
    rd_kafka_ConfigResource_destroy(asked);
    const Owned<rd_kafka_event_t> event{
        rd_kafka_queue_poll(queue.get(), kafka::milliseconds(answer_timeout))};
    const rd_kafka_DescribeConfigs_result_t* result =
        event ? rd_kafka_event_DescribeConfigs_result(event.get()) : nullptr;
    std::size_t count = 0;
    const rd_kafka_ConfigResource_t** answers =
        result == nullptr ? nullptr : rd_kafka_DescribeConfigs_result_resources(result, &count);
    if (count != 1 || rd_kafka_ConfigResource_error(answers[0]) != RD_KAFKA_RESP_ERR_NO_ERROR) {
      const char* why = event ? rd_kafka_event_error_string(event.get()) : "no answer";
      findings.push_back({"settings", Level::warning,
                          "topic '" + topic.name + "': its settings cannot be asked for: " + why,
                          "give this user the right to DescribeConfigs, or look yourself: "
                          "min.insync.replicas, unclean.leader.election.enable, retention.ms"});
      return;
    }
    std::size_t entries = 0;
    const auto* all = rd_kafka_ConfigResource_configs(answers[0], &entries);
    for (std::size_t i = 0; i < entries; ++i) {
      const char* value = rd_kafka_ConfigEntry_value(all[i]);
      if (value != nullptr) set(topic, rd_kafka_ConfigEntry_name(all[i]), value);
    }
  }

  static void set(TopicSettings& topic, std::string_view name, std::string_view value) {
    std::int64_t number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    if (name == "min.insync.replicas") topic.min_insync = static_cast<int>(number);
    if (name == "retention.ms") topic.retention = std::chrono::milliseconds{number};
    if (name == "unclean.leader.election.enable") topic.unclean_election = value == "true";
    if (name == "cleanup.policy") {
      topic.compacted = value.find("compact") != std::string_view::npos;
    }
  }

  const std::string display_name_;
  const Duration timeout_;
  kafka::ClusterHealth health_;
  Owned<rd_kafka_t> handle_;
};

void add(Findings& all, Findings more) { std::ranges::move(more, std::back_inserter(all)); }

void examine_dead_letters(Findings& findings, TopicExaminer& doctor, const std::string& name) {
  const auto topic = doctor.examine_topic(findings, name);
  if (!topic) return;
  add(findings, findings_of(*topic, true));
  const std::int64_t count = doctor.count(name);
  if (count == 0) {
    findings.push_back({"dead", Level::ok, "no dead letters in topic '" + name + "'"});
  } else {
    findings.push_back({"dead", Level::warning,
                        std::to_string(count) + " dead letters in topic '" + name + "'",
                        "read their header twinbox-error, and send them again to the topic in "
                        "twinbox-origin"});
  }
}

}  // namespace

std::vector<Finding> examine_kafka(const KafkaConnection& connection,
                                   const KafkaSinkOptions& options) {
  Findings findings;
  TopicExaminer doctor{connection};
  if (!doctor.reach(findings)) return findings;
  examine_address(findings, connection);
  if (options.topic.empty()) return findings;
  if (const auto topic = doctor.examine_topic(findings, options.topic)) {
    add(findings, findings_of(*topic, false));
  }
  return findings;
}

std::vector<Finding> examine_kafka(const KafkaConnection& connection,
                                   const KafkaSourceOptions& options) {
  Findings findings;
  TopicExaminer doctor{connection};
  if (!doctor.reach(findings)) return findings;
  examine_address(findings, connection);
  std::set<std::string> dead;
  for (const std::string& name : options.topics) {
    if (const auto topic = doctor.examine_topic(findings, name)) {
      add(findings, findings_of(*topic, true));
    }
    dead.insert(kafka::dead_letter_topic_of(options, name));
  }
  for (const std::string& name : dead) examine_dead_letters(findings, doctor, name);
  return findings;
}

}  // namespace twinbox
