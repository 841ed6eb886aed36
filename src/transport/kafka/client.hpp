// The common part of producers and consumers: settings, errors, and the lifetime of a librdkafka
// handle.
#pragma once

#include <librdkafka/rdkafka.h>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "twinbox/kafka.hpp"

namespace twinbox::kafka {

using Settings = std::map<std::string, std::string>;

/// Destroys what librdkafka made, each by its own function.
struct Destroy {
  void operator()(rd_kafka_conf_t* one) const noexcept { rd_kafka_conf_destroy(one); }
  void operator()(rd_kafka_t* one) const noexcept { rd_kafka_destroy(one); }
  void operator()(rd_kafka_queue_t* one) const noexcept { rd_kafka_queue_destroy(one); }
  void operator()(rd_kafka_event_t* one) const noexcept { rd_kafka_event_destroy(one); }
  void operator()(rd_kafka_error_t* one) const noexcept { rd_kafka_error_destroy(one); }
  void operator()(rd_kafka_message_t* one) const noexcept { rd_kafka_message_destroy(one); }
  void operator()(rd_kafka_headers_t* one) const noexcept { rd_kafka_headers_destroy(one); }
  void operator()(rd_kafka_topic_partition_list_t* one) const noexcept {
    rd_kafka_topic_partition_list_destroy(one);
  }
  void operator()(const rd_kafka_metadata_t* one) const noexcept { rd_kafka_metadata_destroy(one); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Destroy>;

/// Throws std::invalid_argument naming the option. Does not connect.
void check(const KafkaConnection& connection);
/// Throws std::invalid_argument unless it is a valid topic; `option` names the setting.
void check_topic(std::string_view option, std::string_view topic);

/// The user's settings, which `check` has allowed, override `ours`.
Owned<rd_kafka_conf_t> configure(const KafkaConnection& connection, const Settings& ours);
/// Takes `conf`, also when it throws std::invalid_argument, because settings exclude each other.
Owned<rd_kafka_t> open(rd_kafka_type_t type, Owned<rd_kafka_conf_t> conf);

int milliseconds(Duration time) noexcept;

/// The cluster's name in errors and logs.
std::string display_name(const KafkaConnection& connection);

/// Whether a cluster can be reached. Not thread-safe.
class ClusterHealth {
 public:
  /// For the error callback of a handle.
  void error(rd_kafka_t* handle, int code, const char* reason);

  /// An error occurred since the last answer: probe it. "All brokers down" is not always reported:
  /// the client library counts them, and may miss the last one.
  [[nodiscard]] bool needs_probe() const noexcept { return needs_probe_; }
  [[nodiscard]] bool unreachable() const noexcept { return unreachable_; }
  [[nodiscard]] const std::string& last_error() const noexcept { return last_error_; }
  /// Only a new handle helps.
  [[nodiscard]] bool is_fatal() const noexcept { return fatal_; }
  void on_answer() noexcept { needs_probe_ = unreachable_ = false; }
  void on_no_answer() noexcept { unreachable_ = true; }

 private:
  bool needs_probe_ = false;
  bool unreachable_ = false;
  bool fatal_ = false;
  std::string last_error_;
};

/// Asks any broker, and waits for `limit` at most.
bool answers(rd_kafka_t* handle, Duration limit);

}  // namespace twinbox::kafka
