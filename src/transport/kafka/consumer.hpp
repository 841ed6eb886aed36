// A member of a consumer group. Used by one thread, except for wake().
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "transport/kafka/client.hpp"
#include "transport/kafka/offset_tracker.hpp"

namespace twinbox::kafka {

/// Events of a member while it polls.
struct GroupEvents {
  /// `count` partitions have become its own.
  std::function<void(std::size_t count)> assigned;
  /// They are revoked; their stored offsets are committed after this call.
  std::function<void(std::span<const Partition>)> revoked;
  std::function<void(const std::string& error)> commit_failed;
  /// Its position no longer exists, so it continues elsewhere. Called on any thread.
  std::function<void(const std::string& reason)> offset_reset;
};

/// Throws std::invalid_argument for invalid settings. Does not connect.
void check_consumer_settings(const KafkaConnection& connection, const KafkaSourceOptions& options);

class Consumer {
 public:
  /// Joins the group at the first poll.
  Consumer(const KafkaConnection& connection, const KafkaSourceOptions& options,
           GroupEvents events);
  /// Commits the stored offsets and leaves the group, if the cluster answers in time.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  /// A record or an error (`err`); empty: no event. Must be called often, even by an idle member:
  /// otherwise the group considers it dead.
  Owned<rd_kafka_message_t> poll(Duration limit);
  /// Ends a poll, from any thread.
  void wake() const noexcept { rd_kafka_queue_yield(queue_.get()); }
  static void wake_up(rd_kafka_t*, void* self) noexcept { static_cast<Consumer*>(self)->wake(); }

  /// Whether records of its partitions are delivered.
  void pause(bool on);
  /// To be committed, about once a second.
  void store(const std::map<Partition, std::int64_t>& positions);
  ClusterHealth& health() noexcept { return health_; }
  /// Asks any broker.
  bool answers(Duration limit) { return kafka::answers(handle_.get(), limit); }

 private:
  static void rebalanced(rd_kafka_t* handle, rd_kafka_resp_err_t error,
                         rd_kafka_topic_partition_list_t* partitions, void* self);
  static void committed(rd_kafka_t* handle, rd_kafka_resp_err_t error,
                        rd_kafka_topic_partition_list_t* offsets, void* self);
  static void failed(rd_kafka_t* handle, int code, const char* reason, void* self);
  static void logged(const rd_kafka_t* handle, int level, const char* about, const char* text);
  void rebalance(rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t* partitions);
  void commit();
  void close();

  GroupEvents events_;
  ClusterHealth health_;
  Owned<rd_kafka_t> handle_;
  Owned<rd_kafka_queue_t> queue_;
};

}  // namespace twinbox::kafka
