// The mock cluster of librdkafka as a process of its own, for clients from elsewhere. Says where it
// is, and ends when its standard input does.
//
//   kafka_mock [topic …]      the topics exist from the beginning, with one partition each
#include <iostream>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <string>

int main(int count, char** words) {
  char error[512];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "log_level", "0", error, sizeof error);
  rd_kafka_t* keeper = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
  rd_kafka_mock_cluster_t* mock =
      keeper == nullptr ? nullptr : rd_kafka_mock_cluster_new(keeper, 1);
  if (mock == nullptr) {
    std::cerr << "kafka_mock: " << error << "\n";
    return 1;
  }
  for (int i = 1; i < count; ++i) rd_kafka_mock_topic_create(mock, words[i], 1, 1);
  std::cout << rd_kafka_mock_cluster_bootstraps(mock) << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  rd_kafka_mock_cluster_destroy(mock);
  rd_kafka_destroy(keeper);
  return 0;
}
