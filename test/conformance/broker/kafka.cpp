#include "kafka.hpp"

#include <stdexcept>

namespace twinbox::test {
namespace {

constexpr int patience = 30'000;  // milliseconds

void silent(const rd_kafka_t*, int, const char*, const char*) {}

void check(rd_kafka_resp_err_t error, const std::string& what) {
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
  throw std::runtime_error("kafka: " + what + ": " + rd_kafka_err2str(error));
}

rd_kafka_t* open(rd_kafka_type_t type, const std::map<std::string, std::string>& settings) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, silent);
  char text[512];
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), text, sizeof text) !=
        RD_KAFKA_CONF_OK) {
      throw std::runtime_error("kafka: " + name + ": " + text);
    }
  }
  rd_kafka_t* handle = rd_kafka_new(type, conf, text, sizeof text);
  if (handle == nullptr) throw std::runtime_error(std::string{"kafka: "} + text);
  return handle;
}

KafkaRecord record_of(const rd_kafka_message_t& message) {
  KafkaRecord record{.body = {static_cast<const char*>(message.payload), message.len}};
  if (message.key != nullptr) {
    record.key = std::string{static_cast<const char*>(message.key), message.key_len};
  }
  record.partition = message.partition;
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return record;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0;
       rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
       ++i) {
    record.headers[name] = std::string{static_cast<const char*>(value), size};
  }
  return record;
}

}  // namespace

std::map<std::string, std::string> quick_settings() {
  return {{"session.timeout.ms", "4000"},
          {"heartbeat.interval.ms", "100"},
          {"reconnect.backoff.ms", "10"},
          {"reconnect.backoff.max.ms", "100"},
          {"auto.commit.interval.ms", "50"},
          {"fetch.wait.max.ms", "10"},
          {"retry.backoff.ms", "10"},
          {"topic.metadata.propagation.max.ms", "100"},
          {"topic.metadata.refresh.fast.interval.ms", "10"},
          {"topic.metadata.refresh.interval.ms", "100"}};
}

Kafka::Kafka() : keeper_(open(RD_KAFKA_PRODUCER, {})) {
  mock_ = rd_kafka_mock_cluster_new(keeper_, 1);
  if (mock_ == nullptr) throw std::runtime_error("kafka: no mock cluster");
  brokers_ = rd_kafka_mock_cluster_bootstraps(mock_);
}

Kafka::Kafka(std::string brokers) : brokers_(std::move(brokers)) {}

Kafka::~Kafka() {
  if (producer_ != nullptr) rd_kafka_destroy(producer_);
  if (mock_ != nullptr) rd_kafka_mock_cluster_destroy(mock_);
  if (keeper_ != nullptr) rd_kafka_destroy(keeper_);
}

rd_kafka_t* Kafka::client(rd_kafka_type_t type, const std::string& group) const {
  std::map<std::string, std::string> settings = quick_settings();
  settings["bootstrap.servers"] = brokers_;
  if (type == RD_KAFKA_PRODUCER) return open(type, settings);
  settings["group.id"] = group.empty() ? "twinbox_test.reader" : group;
  settings["enable.auto.commit"] = "false";
  return open(type, settings);
}

std::string Kafka::topic(const std::string& name, int partitions) {
  if (mock_ != nullptr) {
    check(rd_kafka_mock_topic_create(mock_, name.c_str(), partitions, 1), name);
  } else {
    this->partitions(name);
  }
  return name;
}

int Kafka::partitions(const std::string& topic) const {
  rd_kafka_t* handle = client(RD_KAFKA_PRODUCER);
  rd_kafka_topic_t* asked = rd_kafka_topic_new(handle, topic.c_str(), nullptr);
  const rd_kafka_metadata_t* metadata = nullptr;
  check(rd_kafka_metadata(handle, 0, asked, &metadata, patience), topic);
  const int count = metadata->topics[0].partition_cnt;
  rd_kafka_metadata_destroy(metadata);
  rd_kafka_topic_destroy(asked);
  rd_kafka_destroy(handle);
  return count;
}

void Kafka::publish(const std::string& topic, const KafkaRecord& record) {
  if (producer_ == nullptr) producer_ = client(RD_KAFKA_PRODUCER);
  rd_kafka_headers_t* headers = rd_kafka_headers_new(record.headers.size());
  for (const auto& [name, value] : record.headers) {
    rd_kafka_header_add(headers, name.c_str(), -1, value.data(),
                        static_cast<ssize_t>(value.size()));
  }
  rd_kafka_vu_t parts[6] = {};
  parts[0].vtype = RD_KAFKA_VTYPE_TOPIC;
  parts[0].u.cstr = topic.c_str();
  parts[1].vtype = RD_KAFKA_VTYPE_PARTITION;
  parts[1].u.i32 = record.partition;
  parts[2].vtype = RD_KAFKA_VTYPE_VALUE;
  parts[2].u.mem = {const_cast<char*>(record.body.data()), record.body.size()};
  parts[3].vtype = RD_KAFKA_VTYPE_KEY;
  if (record.key) parts[3].u.mem = {const_cast<char*>(record.key->data()), record.key->size()};
  parts[4].vtype = RD_KAFKA_VTYPE_HEADERS;
  parts[4].u.headers = headers;
  parts[5].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
  parts[5].u.i = RD_KAFKA_MSG_F_COPY;
  if (rd_kafka_error_t* error = rd_kafka_produceva(producer_, parts, std::size(parts))) {
    throw std::runtime_error(std::string{"kafka: publish: "} + rd_kafka_error_string(error));
  }
  check(rd_kafka_flush(producer_, patience), "flush");
}

std::vector<KafkaRecord> Kafka::read(const std::string& topic) {
  std::vector<KafkaRecord> all;
  const int count = partitions(topic);
  rd_kafka_t* handle = client(RD_KAFKA_CONSUMER);
  rd_kafka_poll_set_consumer(handle);
  for (int partition = 0; partition < count; ++partition) {
    std::int64_t low = 0, high = 0;
    check(rd_kafka_query_watermark_offsets(handle, topic.c_str(), partition, &low, &high, patience),
          "watermarks");
    if (low == high) continue;
    auto* list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic.c_str(), partition)->offset = low;
    check(rd_kafka_assign(handle, list), "assign");
    rd_kafka_topic_partition_list_destroy(list);
    for (std::int64_t at = low; at < high;) {
      rd_kafka_message_t* message = rd_kafka_consumer_poll(handle, patience);
      if (message == nullptr) throw std::runtime_error("kafka: nothing comes from " + topic);
      if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR && message->partition == partition) {
        all.push_back(record_of(*message));
        at = message->offset + 1;
      }
      rd_kafka_message_destroy(message);
    }
  }
  rd_kafka_consumer_close(handle);
  rd_kafka_destroy(handle);
  return all;
}

std::size_t Kafka::count(const std::string& topic) {
  std::size_t sum = 0;
  rd_kafka_t* handle = client(RD_KAFKA_PRODUCER);
  const int count = partitions(topic);
  for (int partition = 0; partition < count; ++partition) {
    std::int64_t low = 0, high = 0;
    check(rd_kafka_query_watermark_offsets(handle, topic.c_str(), partition, &low, &high, patience),
          "watermarks");
    sum += static_cast<std::size_t>(high - low);
  }
  rd_kafka_destroy(handle);
  return sum;
}

std::int64_t Kafka::committed(const std::string& group, const std::string& topic) {
  rd_kafka_t* handle = client(RD_KAFKA_CONSUMER, group);
  auto* list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(list, topic.c_str(), 0);
  check(rd_kafka_committed(handle, list, patience), "committed");
  const std::int64_t offset = list->elems[0].offset;
  rd_kafka_topic_partition_list_destroy(list);
  rd_kafka_destroy(handle);
  return offset < 0 ? -1 : offset;
}

void Kafka::commit(const std::string& group, const std::string& topic, std::int64_t offset) {
  rd_kafka_t* handle = client(RD_KAFKA_CONSUMER, group);
  auto* list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(list, topic.c_str(), 0)->offset = offset;
  const rd_kafka_resp_err_t error = rd_kafka_commit(handle, list, 0);
  rd_kafka_topic_partition_list_destroy(list);
  rd_kafka_destroy(handle);
  check(error, "commit");
}

void Kafka::fail(std::int16_t request, rd_kafka_resp_err_t error, std::size_t count) {
  const std::vector<rd_kafka_resp_err_t> errors(count, error);
  rd_kafka_mock_push_request_errors_array(mock_, request, count, errors.data());
}

void Kafka::delay(std::int16_t request) {
  constexpr int broker = 1, minute = 60'000;
  check(rd_kafka_mock_broker_push_request_error_rtts(mock_, broker, request, 1,
                                                     RD_KAFKA_RESP_ERR_NO_ERROR, minute),
        "delay");
}

void Kafka::hide(const std::string& topic, rd_kafka_resp_err_t error) {
  rd_kafka_mock_topic_set_error(mock_, topic.c_str(), error);
}

}  // namespace twinbox::test
