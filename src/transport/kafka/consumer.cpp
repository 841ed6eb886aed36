#include "transport/kafka/consumer.hpp"

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using List = Owned<rd_kafka_topic_partition_list_t>;

/// For a commit, or for leaving: after that the group detects it by itself.
constexpr Duration answer_timeout = 5s;

Settings settings_of(const KafkaSourceOptions& options) {
  return {{"group.id", options.group},
          // Offsets are stored after the accept has committed, and committed from there.
          {"enable.auto.offset.store", "false"},
          {"enable.auto.commit", "true"},
          {"auto.commit.interval.ms", "1000"},
          {"auto.offset.reset", options.from_beginning ? "earliest" : "latest"},
          {"enable.partition.eof", "false"},
          {"allow.auto.create.topics", "false"},
          {"queued.min.messages", "10000"}};
}

std::vector<Partition> partitions_of(const rd_kafka_topic_partition_list_t& list) {
  std::vector<Partition> partitions;
  for (int i = 0; i < list.cnt; ++i) {
    partitions.push_back({list.elems[i].topic, list.elems[i].partition});
  }
  return partitions;
}

}  // namespace

void check_consumer_settings(const KafkaConnection& connection, const KafkaSourceOptions& options) {
  KafkaConnection nowhere = connection;
  nowhere.brokers.clear();
  auto handle = open(RD_KAFKA_CONSUMER, configure(nowhere, settings_of(options)));
  rd_kafka_destroy_flags(handle.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

Consumer::Consumer(const KafkaConnection& connection, const KafkaSourceOptions& options,
                   GroupEvents events)
    : events_(std::move(events)) {
  auto conf = configure(connection, settings_of(options));
  rd_kafka_conf_set_opaque(conf.get(), this);
  rd_kafka_conf_set_rebalance_cb(conf.get(), rebalanced);
  rd_kafka_conf_set_offset_commit_cb(conf.get(), committed);
  rd_kafka_conf_set_error_cb(conf.get(), failed);
  rd_kafka_conf_set_log_cb(conf.get(), logged);
  handle_ = open(RD_KAFKA_CONSUMER, std::move(conf));
  rd_kafka_poll_set_consumer(handle_.get());
  queue_.reset(rd_kafka_queue_get_consumer(handle_.get()));
  const List topics{rd_kafka_topic_partition_list_new(static_cast<int>(options.topics.size()))};
  for (const std::string& topic : options.topics) {
    rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
  }
  const rd_kafka_resp_err_t error = rd_kafka_subscribe(handle_.get(), topics.get());
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw BrokerError(display_name(connection) + ": subscribing: " + rd_kafka_err2str(error));
  }
}

Consumer::~Consumer() {
  close();
  queue_.reset();
  // A closed consumer needs no second, unbounded attempt.
  rd_kafka_destroy_flags(handle_.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

/// With unresponsive brokers, leaving could take forever.
void Consumer::close() {
  const Owned<rd_kafka_queue_t> last{rd_kafka_queue_new(handle_.get())};
  const Owned<rd_kafka_error_t> error{rd_kafka_consumer_close_queue(handle_.get(), last.get())};
  if (error) return;
  const auto end = Clock::now() + answer_timeout;
  while (rd_kafka_consumer_closed(handle_.get()) == 0 && Clock::now() < end) {
    // Records that were fetched before arrive, too, and are left to the next consumer.
    const Owned<rd_kafka_message_t> late{rd_kafka_consume_queue(last.get(), 100)};
  }
}

void Consumer::rebalanced(rd_kafka_t*, rd_kafka_resp_err_t error,
                          rd_kafka_topic_partition_list_t* partitions, void* self) {
  static_cast<Consumer*>(self)->rebalance(error, partitions);
}

void Consumer::rebalance(rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t* partitions) {
  rd_kafka_t* handle = handle_.get();
  const bool in_steps = std::string_view{rd_kafka_rebalance_protocol(handle)} == "COOPERATIVE";
  const bool gained = error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
  if (!gained) {
    events_.revoked(partitions_of(*partitions));
    // Another consumer may have committed more of lost partitions.
    if (rd_kafka_assignment_lost(handle) == 0) commit();
  }
  if (in_steps) {
    const Owned<rd_kafka_error_t> refused{gained
                                              ? rd_kafka_incremental_assign(handle, partitions)
                                              : rd_kafka_incremental_unassign(handle, partitions)};
  } else {
    rd_kafka_assign(handle, gained ? partitions : nullptr);
  }
  if (!gained) return;
  // A partition that was paused when it was revoked would still be paused when it is assigned
  // again.
  rd_kafka_resume_partitions(handle, partitions);
  events_.assigned(static_cast<std::size_t>(partitions->cnt));
}

void Consumer::committed(rd_kafka_t*, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t*,
                         void* self) {
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == RD_KAFKA_RESP_ERR__NO_OFFSET) return;
  static_cast<Consumer*>(self)->events_.commit_failed(rd_kafka_err2str(error));
}

void Consumer::failed(rd_kafka_t* handle, int code, const char* reason, void* self) {
  static_cast<Consumer*>(self)->health_.error(handle, code, reason);
}

/// The one event that the client library reports in no other way: messages may have been skipped,
/// or are redelivered.
void Consumer::logged(const rd_kafka_t* handle, int level, const char* about, const char* text) {
  constexpr int warning = 4;  // of syslog
  if (level > warning || std::string_view{about} != "OFFSET") return;
  static_cast<Consumer*>(rd_kafka_opaque(handle))->events_.offset_reset(text);
}

Owned<rd_kafka_message_t> Consumer::poll(Duration limit) {
  return Owned<rd_kafka_message_t>{rd_kafka_consumer_poll(handle_.get(), milliseconds(limit))};
}

void Consumer::pause(bool on) {
  rd_kafka_topic_partition_list_t* all = nullptr;
  if (rd_kafka_assignment(handle_.get(), &all) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  const List owned{all};
  if (on) {
    rd_kafka_pause_partitions(handle_.get(), all);
  } else {
    rd_kafka_resume_partitions(handle_.get(), all);
  }
}

void Consumer::store(const std::map<Partition, std::int64_t>& positions) {
  if (positions.empty()) return;
  const List list{rd_kafka_topic_partition_list_new(static_cast<int>(positions.size()))};
  for (const auto& [partition, position] : positions) {
    rd_kafka_topic_partition_list_add(list.get(), partition.topic.c_str(), partition.number)
        ->offset = position;
  }
  // Refused for a lost partition, whose new owner reads it again.
  rd_kafka_offsets_store(handle_.get(), list.get());
}

/// Waits for it, for a while.
void Consumer::commit() {
  if (health_.unreachable()) return;
  const Owned<rd_kafka_queue_t> answer{rd_kafka_queue_new(handle_.get())};
  if (rd_kafka_commit_queue(handle_.get(), nullptr, answer.get(), committed, this) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return;  // nothing is stored
  }
  rd_kafka_queue_poll_callback(answer.get(), milliseconds(answer_timeout));
}

}  // namespace twinbox::kafka
