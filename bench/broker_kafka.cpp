#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <memory>
#include <stdexcept>

#include "broker_side.hpp"
#include "twinbox/kafka.hpp"

namespace twinbox::bench {
namespace {

void set(rd_kafka_conf_t* conf, const char* name, const std::string& value) {
  if (rd_kafka_conf_set(conf, name, value.c_str(), nullptr, 0) != RD_KAFKA_CONF_OK) {
    throw std::runtime_error(std::string{"kafka: "} + name);
  }
}

rd_kafka_t* open(rd_kafka_conf_t* conf) {
  set(conf, "log_level", "0");
  rd_kafka_t* handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, nullptr, 0);
  if (handle == nullptr) throw std::runtime_error("kafka: no producer");
  return handle;
}

/// A cluster of one broker on a thread of this process, which keeps five megabytes of a partition.
class MockCluster {
 public:
  MockCluster() : keeper_(open(rd_kafka_conf_new())), mock_(rd_kafka_mock_cluster_new(keeper_, 1)) {
    for (const char* topic : {"ours", "plain"}) rd_kafka_mock_topic_create(mock_, topic, 4, 1);
  }
  ~MockCluster() {
    rd_kafka_mock_cluster_destroy(mock_);
    rd_kafka_destroy(keeper_);
  }
  MockCluster(const MockCluster&) = delete;
  MockCluster& operator=(const MockCluster&) = delete;

  [[nodiscard]] std::string brokers() const { return rd_kafka_mock_cluster_bootstraps(mock_); }

 private:
  rd_kafka_t* keeper_;
  rd_kafka_mock_cluster_t* mock_;
};

/// The client library alone: idempotent, acks=all, a report for each.
class PlainProducer {
 public:
  explicit PlainProducer(const std::string& brokers) {
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", brokers);
    set(conf, "enable.idempotence", "true");
    set(conf, "acks", "all");
    rd_kafka_conf_set_opaque(conf, this);
    rd_kafka_conf_set_dr_msg_cb(conf, [](rd_kafka_t*, const rd_kafka_message_t* one, void* self) {
      if (one->err == RD_KAFKA_RESP_ERR_NO_ERROR) ++static_cast<PlainProducer*>(self)->delivered_;
    });
    handle_ = open(conf);
  }
  ~PlainProducer() { rd_kafka_destroy(handle_); }
  PlainProducer(const PlainProducer&) = delete;
  PlainProducer& operator=(const PlainProducer&) = delete;

  double publish(int count) {
    const std::string body(broker_payload_size, 'x');
    delivered_ = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int sent = 0; sent < count; ++sent) {
      while (sent - delivered_ > 10'000) rd_kafka_poll(handle_, 10);
      std::array<rd_kafka_vu_t, 4 + broker_labels.size()> parts = {};
      parts[0].vtype = RD_KAFKA_VTYPE_TOPIC;
      parts[0].u.cstr = "plain";
      parts[1].vtype = RD_KAFKA_VTYPE_VALUE;
      parts[1].u.mem = {const_cast<char*>(body.data()), body.size()};
      parts[2].vtype = RD_KAFKA_VTYPE_HEADER;
      parts[2].u.header = {"id", "0191e2a0-0000-7000-8000-000000000000", -1};
      parts[3].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
      parts[3].u.i = RD_KAFKA_MSG_F_COPY;
      for (std::size_t i = 0; i < broker_labels.size(); ++i) {
        parts[4 + i].vtype = RD_KAFKA_VTYPE_HEADER;
        parts[4 + i].u.header = {broker_labels[i].first, broker_labels[i].second, -1};
      }
      if (rd_kafka_produceva(handle_, parts.data(), parts.size()) != nullptr) {
        throw std::runtime_error("the plain producer cannot produce");
      }
    }
    rd_kafka_flush(handle_, 60'000);
    if (delivered_ != count) throw std::runtime_error("the cluster does not confirm");
    return rate(count, begin);
  }

 private:
  rd_kafka_t* handle_ = nullptr;
  int delivered_ = 0;
};

}  // namespace

BrokerSide kafka_side() {
  auto cluster = std::make_shared<MockCluster>();
  auto plain = std::make_shared<PlainProducer>(cluster->brokers());
  auto publisher = std::make_shared<KafkaPublisher>(KafkaConnection{.brokers = cluster->brokers()},
                                                    KafkaSinkOptions{.topic = "ours"});
  return {[=](int count) { return plain->publish(count); }, [cluster] {},
          kafka_sink(std::move(publisher))};
}

}  // namespace twinbox::bench
