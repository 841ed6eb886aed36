// Kafka as the tests of sinks and sources see it from the other side: the mock cluster of
// librdkafka, in this process, or a real one.
#pragma once

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace twinbox::test {

/// What a test publishes, or finds in a topic.
struct KafkaRecord {
  std::string body;
  std::optional<std::string> key = {};
  std::map<std::string, std::string> headers = {};
  int partition = -1;  ///< -1: as the key says
};

/// Settings that let tests be quick. The first member of a group waits for others for three seconds
/// nevertheless: the mock cluster has it so, and takes a shorter session for dead meanwhile.
std::map<std::string, std::string> quick_settings();

/// A cluster, and a client of the test's own. Throws std::runtime_error.
class Kafka {
 public:
  /// A mock cluster of its own.
  Kafka();
  /// A real one.
  explicit Kafka(std::string brokers);
  ~Kafka();
  Kafka(const Kafka&) = delete;
  Kafka& operator=(const Kafka&) = delete;

  [[nodiscard]] const std::string& brokers() const noexcept { return brokers_; }
  /// A new topic; on a real cluster it must be made by being asked for.
  std::string topic(const std::string& name, int partitions = 1);
  void publish(const std::string& topic, const KafkaRecord& record);
  /// Everything that lies in a topic, partition by partition.
  std::vector<KafkaRecord> read(const std::string& topic);
  std::size_t count(const std::string& topic);
  /// Where a group would begin in partition 0 of a topic; -1: it has no offset there.
  std::int64_t committed(const std::string& group, const std::string& topic);
  /// Lets it begin there.
  void commit(const std::string& group, const std::string& topic, std::int64_t offset);

  // Of the mock cluster only.
  static constexpr std::int16_t produce_request = 0, commit_request = 8;
  void down() { rd_kafka_mock_broker_set_down(mock_, -1); }
  void up() { rd_kafka_mock_broker_set_up(mock_, -1); }
  /// The next `count` requests of that kind are answered with it.
  void fail(std::int16_t request, rd_kafka_resp_err_t error, std::size_t count = 1);
  void heal(std::int16_t request) { rd_kafka_mock_clear_request_errors(mock_, request); }
  /// From now on nobody finds the topic.
  void hide(const std::string& topic, rd_kafka_resp_err_t error);
  /// The next request of that kind is done at once and answered a minute later.
  void delay(std::int16_t request);

 private:
  rd_kafka_t* client(rd_kafka_type_t type, const std::string& group = {}) const;
  int partitions(const std::string& topic) const;

  std::string brokers_;
  rd_kafka_t* keeper_ = nullptr;  ///< the mock cluster lives in it
  rd_kafka_mock_cluster_t* mock_ = nullptr;
  rd_kafka_t* producer_ = nullptr;
};

}  // namespace twinbox::test
