#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "transport/consume_loop.hpp"
#include "transport/kafka/consumer.hpp"
#include "transport/kafka/dead_letter_publisher.hpp"
#include "twinbox/database.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using kafka::Consumer;
using kafka::Owned;
using kafka::Partition;
using Clock = std::chrono::steady_clock;

/// How many may have been accepted after a stuck one; a crash would redeliver them all.
constexpr std::int64_t max_uncommitted = 100'000;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("kafka source: " + why);
}

KafkaSourceOptions checked(KafkaSourceOptions options) {
  if (options.topics.empty()) refuse("topics is missing: what to consume from");
  if (options.group.empty()) refuse("group is missing: the name that its consumers share");
  if (options.prefetch < 1 || options.prefetch > 100'000) refuse("prefetch must be 1 to 100000");
  if (options.retry.max_retries < 0) refuse("max_retries must not be negative");
  if (options.retry.delay < Duration::zero()) refuse("delay must not be negative");
  try {
    for (const std::string& topic : options.topics) {
      kafka::check_topic("topics", topic);
      kafka::check_topic("dead_letter_topic", kafka::dead_letter_topic_of(options, topic));
      if (kafka::dead_letter_topic_of(options, topic) == topic) {
        refuse("dead_letter_topic '" + topic +
               "' is consumed itself: dead letters would come back");
      }
    }
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return options;
}

/// One member of the group: its open records, and the offsets that may be committed. Everything
/// happens on one thread, so that no accept is running when a partition is revoked.
class GroupConsumer {
 public:
  GroupConsumer(const KafkaConnection& connection, const KafkaSourceOptions& options,
                const AcceptCall& accept, const Environment& environment,
                SharedSourceStatus& status, const std::function<void()>& joined)
      : connection_(connection),
        options_(options),
        environment_(environment),
        status_(status),
        joined_(joined),
        buffer_(accept, options.retry, options.group, environment),
        dead_letters_(connection, options, environment, status,
                      [this](const kafka::Producer& producer) {
                        producer.set_wake_callback(&Consumer::wake_up, &consumer_);
                      }),
        consumer_(connection, options,
                  {.assigned = [this](std::size_t count) { assigned(count); },
                   .revoked = [this](std::span<const Partition> gone) { drop(gone); },
                   .commit_failed = [this](const std::string& error) { commit_failed(error); },
                   .offset_reset = [this](const std::string& reason) { offset_reset(reason); }}) {}
  /// The consumer commits the accepted records; the next consumer gets the rest. It does not end
  /// while one of its records is in hand.
  ~GroupConsumer() {
    dead_letters_.stop();
    open_records_.clear();
  }
  GroupConsumer(const GroupConsumer&) = delete;
  GroupConsumer& operator=(const GroupConsumer&) = delete;

  void run(const std::stop_token& stop) {
    const std::stop_callback on_stop{stop, [this] { consumer_.wake(); }};
    const StopScope until_stop{stop};
    while (!stop.stop_requested()) {
      receive(stop);
      settle(buffer_.step(Clock::now()));
      finish(dead_letters_.step(Clock::now()));
      pause_or_resume();
      check_connectivity();
    }
  }

 private:
  /// An unchanged record; kept until it is settled.
  struct OpenRecord {
    Owned<rd_kafka_message_t> message;
    Partition partition;
  };

  void receive(const std::stop_token& stop) {
    const auto limit = static_cast<std::size_t>(options_.prefetch);
    Duration wait = until_next();
    do {
      auto message = consumer_.poll(wait);
      if (!message || stop.stop_requested()) return;
      wait = 0ms;
      if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        add(std::move(message));
      } else {
        report_error(*message);
      }
    } while (open_records_.size() < limit);
  }

  void add(Owned<rd_kafka_message_t> message) {
    const std::uint64_t tag = ++last_tag_;
    const Partition partition{rd_kafka_topic_name(message->rkt), message->partition};
    offsets_.add(partition, message->offset);
    OpenRecord& open_record = open_records_[tag];
    open_record = {std::move(message), partition};
    try {
      buffer_.add({tag, kafka::read_arrival(*open_record.message, options_)});
    } catch (const std::invalid_argument& error) {
      buffer_.add({tag, {}, error.what()});
    }
  }

  void settle(std::vector<AcceptResult> all) {
    std::vector<std::uint64_t> done;
    std::uint64_t duplicates = 0;
    for (AcceptResult& one : all) {
      if (one.accepted) {
        done.push_back(one.tag);
        duplicates += one.accepted->duplicate() ? 1 : 0;
      } else {
        dead_letters_.add(one.tag, *open_records_.at(one.tag).message, std::move(one.error));
      }
    }
    finish(done);
    const std::uint64_t retried = buffer_.retried() - retried_;
    retried_ += retried;
    const std::string before = std::exchange(reported_error_, buffer_.last_error());
    status_.update([&](SourceStatus& status) {
      status.accepted += done.size() - duplicates;
      status.duplicates += duplicates;
      status.retried += retried;
      // An error of the dead letters is not over because this one is.
      if (reported_error_ != before && (!reported_error_.empty() || status.error == before))
        status.error = reported_error_;
    });
  }

  /// They need not be redelivered: the offsets of their partitions advance, up to the oldest open
  /// record.
  void finish(const std::vector<std::uint64_t>& tags) {
    std::map<Partition, std::int64_t> positions;
    for (const std::uint64_t tag : tags) {
      const auto found = open_records_.find(tag);
      if (found == open_records_.end()) continue;
      offsets_.settle(found->second.partition, found->second.message->offset);
      positions[found->second.partition] = 0;
      open_records_.erase(found);
    }
    for (auto& [partition, position] : positions) position = offsets_.position(partition);
    consumer_.store(positions);
  }

  /// How long to wait, unless woken.
  [[nodiscard]] Duration until_next() const {
    const auto now = Clock::now();
    auto next = now + (consumer_unreachable_ ? 200ms : 1s);
    if (const auto due = buffer_.next()) next = std::min(next, *due);
    if (const auto due = dead_letters_.next()) next = std::min(next, *due);
    return std::max<Duration>(0ms, std::chrono::ceil<Duration>(next - now));
  }

  /// Partitions pause while too many records wait here, and polling continues: the group keeps the
  /// member.
  void pause_or_resume() {
    const auto limit = static_cast<std::size_t>(options_.prefetch);
    const bool too_far_ahead = offsets_.widest_open_range() > max_uncommitted;
    if (!paused_ && (open_records_.size() >= limit || too_far_ahead)) {
      paused_ = true;
      consumer_.pause(true);
    } else if (paused_ && open_records_.size() <= limit / 2 && !too_far_ahead) {
      paused_ = false;
      consumer_.pause(false);
    }
  }

  /// Lost and recovered; librdkafka reconnects by itself, and the group may not even notice.
  void check_connectivity() {
    kafka::ClusterHealth& health = consumer_.health();
    if (health.is_fatal()) throw BrokerError(health.last_error());
    if (!health.needs_probe()) return;
    if (consumer_.answers(100ms)) {
      health.on_answer();
      if (consumer_unreachable_ && has_partitions_) connected(true);
      consumer_unreachable_ = false;
      return;
    }
    health.on_no_answer();
    if (std::exchange(consumer_unreachable_, true)) return;
    lost(health.last_error());
  }

  void assigned(std::size_t count) {
    joined_();
    has_partitions_ = true;
    if (paused_) consumer_.pause(true);  // the new ones, too
    consumer_unreachable_ = false;
    consumer_.health().on_answer();
    connected(count > 0);
  }

  void connected(bool all_is_well) {
    status_.update([&](SourceStatus& status) {
      status.connected = true;
      if (all_is_well) status.error.clear();
    });
    const std::string broker = kafka::display_name(connection_);
    environment_.write(
        LogLevel::info, "broker_connected",
        {{"broker", std::string_view{broker}}, {"source", std::string_view{options_.group}}});
  }

  void lost(const std::string& error) {
    const std::string cut = truncate_error(error);
    status_.update([&](SourceStatus& status) {
      status.connected = false;
      status.error = cut;
    });
    environment_.write(
        LogLevel::warning, "broker_lost",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{cut}}});
  }

  /// Their open records are dropped: the new owner reads them again.
  void drop(std::span<const Partition> gone) {
    std::set<std::uint64_t> tags;
    for (const Partition& partition : gone) offsets_.drop(partition);
    std::erase_if(open_records_, [&](const auto& one) {
      if (offsets_.knows(one.second.partition)) return false;
      tags.insert(one.first);
      return true;
    });
    buffer_.drop(tags);
    dead_letters_.drop(tags);
  }

  void commit_failed(const std::string& error) const {
    environment_.write(
        LogLevel::warning, "commit_failed",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{error}}});
  }

  void offset_reset(const std::string& reason) const {
    const std::string cut = truncate_error(reason);
    environment_.write(
        LogLevel::warning, "offset_reset",
        {{"source", std::string_view{options_.group}}, {"reason", std::string_view{cut}}});
  }

  /// A topic that is missing, a right that is missing, a member that was too slow.
  void report_error(const rd_kafka_message_t& message) {
    const std::string cut = truncate_error(rd_kafka_message_errstr(&message));
    status_.update([&](SourceStatus& status) { status.error = cut; });
    environment_.write(
        LogLevel::warning, "broker_error",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{cut}}});
  }

  const KafkaConnection& connection_;
  const KafkaSourceOptions& options_;
  const Environment& environment_;
  SharedSourceStatus& status_;
  const std::function<void()>& joined_;
  AcceptBuffer buffer_;
  kafka::OffsetTracker offsets_;
  std::map<std::uint64_t, OpenRecord> open_records_;  ///< by tag, in the order of their arrival
  std::uint64_t last_tag_ = 0;
  std::uint64_t retried_ = 0;   ///< reported already
  std::string reported_error_;  ///< the last error
  bool paused_ = false;
  bool has_partitions_ = false;
  bool consumer_unreachable_ = false;
  kafka::DeadLetterPublisher dead_letters_;  // wakes the consumer
  Consumer consumer_;                        // calls the above until it is closed
};

class KafkaSource : public BrokerSource {
 public:
  KafkaSource(KafkaConnection connection, KafkaSourceOptions options, AcceptCall accept,
              Environment environment)
      : connection_(std::move(connection)),
        options_(checked(std::move(options))),
        accept_(std::move(accept)),
        environment_(std::move(environment)) {
    try {
      kafka::check(connection_);
      kafka::check_consumer_settings(connection_, options_);
    } catch (const std::invalid_argument& error) {
      refuse(error.what());
    }
    if (!accept_) refuse("accept is missing: where its messages go");
  }

  void run(std::stop_token stop) override {
    consume_with_reconnect(stop, options_.group, connection_.max_reconnect_delay, environment_,
                           status_, [&](const auto& joined) {
                             GroupConsumer consumer{connection_,  options_, accept_,
                                                    environment_, status_,  joined};
                             consumer.run(stop);
                           });
  }

  [[nodiscard]] SourceStatus status() const override { return status_.get(); }

 private:
  const KafkaConnection connection_;
  const KafkaSourceOptions options_;
  const AcceptCall accept_;
  const Environment environment_;
  SharedSourceStatus status_;
};

}  // namespace

std::unique_ptr<BrokerSource> kafka_source(KafkaConnection connection, KafkaSourceOptions options,
                                           AcceptCall accept, Environment environment) {
  return std::make_unique<KafkaSource>(std::move(connection), std::move(options), std::move(accept),
                                       std::move(environment));
}

}  // namespace twinbox
