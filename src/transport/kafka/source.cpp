#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "transport/consuming.hpp"
#include "transport/kafka/consumer.hpp"
#include "transport/kafka/dead_letters.hpp"
#include "twinbox/stop_scope.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using kafka::Consumer;
using kafka::Owned;
using kafka::Partition;
using Clock = std::chrono::steady_clock;

/// As many may have been accepted behind one that is stuck; a crash would bring them all again.
constexpr std::int64_t longest_stretch = 100'000;

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
      kafka::check_topic("dead_letter_topic", kafka::dead_topic(options, topic));
      if (kafka::dead_topic(options, topic) == topic) {
        refuse("dead_letter_topic '" + topic +
               "' is consumed itself: dead letters would come back");
      }
    }
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return options;
}

/// One member of the group: what it has in hand, and how far each partition may be committed.
/// Everything happens on one thread, so that no accept is under way when a partition is taken away.
class Member {
 public:
  Member(const KafkaConnection& connection, const KafkaSourceOptions& options,
         const AcceptCall& accept, const Environment& environment, SourceRecord& record,
         const std::function<void()>& joined)
      : connection_(connection),
        options_(options),
        environment_(environment),
        record_(record),
        joined_(joined),
        desk_(accept, options.retry, options.group, environment),
        dead_(connection, options, environment, record,
              [this](const kafka::Producer& producer) {
                producer.tell(&Consumer::wake_up, &consumer_);
              }),
        consumer_(connection, options,
                  {.assigned = [this](std::size_t count) { assigned(count); },
                   .revoked = [this](std::span<const Partition> gone) { drop(gone); },
                   .commit_failed = [this](const std::string& error) { commit_failed(error); },
                   .offset_reset = [this](const std::string& reason) { offset_reset(reason); }}) {}
  /// The consumer commits what has been accepted; the rest comes again to whoever is next. It does
  /// not end while one of its records is in hand.
  ~Member() {
    dead_.stop();
    held_.clear();
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void run(const std::stop_token& stop) {
    const std::stop_callback on_stop{stop, [this] { consumer_.wake(); }};
    const StopScope until_stop{stop};
    while (!stop.stop_requested()) {
      receive(stop);
      settle(desk_.step(Clock::now()));
      finish(dead_.step(Clock::now()));
      hold_back();
      listen();
    }
  }

 private:
  /// A record as it came; kept until it is settled.
  struct Held {
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
        trouble(*message);
      }
    } while (held_.size() < limit);
  }

  void add(Owned<rd_kafka_message_t> message) {
    const std::uint64_t tag = ++last_tag_;
    const Partition partition{rd_kafka_topic_name(message->rkt), message->partition};
    progress_.add(partition, message->offset);
    Held& held = held_[tag];
    held = {std::move(message), partition};
    try {
      desk_.add({tag, kafka::read_arrival(*held.message, options_)});
    } catch (const std::invalid_argument& error) {
      desk_.add({tag, {}, error.what()});
    }
  }

  void settle(std::vector<Settled> all) {
    std::vector<std::uint64_t> done;
    std::uint64_t duplicates = 0;
    for (Settled& one : all) {
      if (one.accepted) {
        done.push_back(one.tag);
        duplicates += one.accepted->duplicate() ? 1 : 0;
      } else {
        dead_.add(one.tag, *held_.at(one.tag).message, std::move(one.error));
      }
    }
    finish(done);
    const std::uint64_t retried = desk_.retried() - retried_;
    retried_ += retried;
    const std::string before = std::exchange(told_, desk_.last_error());
    record_.change([&](SourceStatus& status) {
      status.accepted += done.size() - duplicates;
      status.duplicates += duplicates;
      status.retried += retried;
      // One of the dead letters' is not over because this one is.
      if (told_ != before && (!told_.empty() || status.error == before)) status.error = told_;
    });
  }

  /// They need not come again: the offsets of their partitions move on, up to what is still open.
  void finish(const std::vector<std::uint64_t>& tags) {
    std::map<Partition, std::int64_t> positions;
    for (const std::uint64_t tag : tags) {
      const auto found = held_.find(tag);
      if (found == held_.end()) continue;
      progress_.settle(found->second.partition, found->second.message->offset);
      positions[found->second.partition] = 0;
      held_.erase(found);
    }
    for (auto& [partition, position] : positions) position = progress_.position(partition);
    consumer_.store(positions);
  }

  /// How long nothing is to be done, unless somebody wakes us.
  [[nodiscard]] Duration until_next() const {
    const auto now = Clock::now();
    auto next = now + (consumer_silent_ ? 200ms : 1s);
    if (const auto due = desk_.next()) next = std::min(next, *due);
    if (const auto due = dead_.next()) next = std::min(next, *due);
    return std::max<Duration>(0ms, std::chrono::ceil<Duration>(next - now));
  }

  /// Partitions pause while too much waits here, and polling goes on: the group keeps us.
  void hold_back() {
    const auto limit = static_cast<std::size_t>(options_.prefetch);
    const bool stretched = progress_.held() > longest_stretch;
    if (!paused_ && (held_.size() >= limit || stretched)) {
      paused_ = true;
      consumer_.pause(true);
    } else if (paused_ && held_.size() <= limit / 2 && !stretched) {
      paused_ = false;
      consumer_.pause(false);
    }
  }

  /// Lost and found again; librdkafka connects again by itself, and the group may not even notice.
  void listen() {
    kafka::Hearing& hearing = consumer_.hearing();
    if (hearing.is_over()) throw BrokerError(hearing.last_error());
    if (!hearing.in_doubt()) return;
    if (consumer_.answers(100ms)) {
      hearing.heard();
      if (consumer_silent_ && member_) connected(true);
      consumer_silent_ = false;
      return;
    }
    hearing.not_heard();
    if (std::exchange(consumer_silent_, true)) return;
    lost(hearing.last_error());
  }

  void assigned(std::size_t count) {
    joined_();
    member_ = true;
    if (paused_) consumer_.pause(true);  // the new ones, too
    consumer_silent_ = false;
    consumer_.hearing().heard();
    connected(count > 0);
  }

  void connected(bool all_is_well) {
    record_.change([&](SourceStatus& status) {
      status.connected = true;
      if (all_is_well) status.error.clear();
    });
    const std::string broker = kafka::shown(connection_);
    environment_.write(
        LogLevel::info, "broker_connected",
        {{"broker", std::string_view{broker}}, {"source", std::string_view{options_.group}}});
  }

  void lost(const std::string& error) {
    const std::string cut = cut_error(error);
    record_.change([&](SourceStatus& status) {
      status.connected = false;
      status.error = cut;
    });
    environment_.write(
        LogLevel::warning, "broker_lost",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{cut}}});
  }

  /// What was in hand of them is forgotten: whoever gets them reads it again.
  void drop(std::span<const Partition> gone) {
    std::set<std::uint64_t> tags;
    for (const Partition& partition : gone) progress_.drop(partition);
    std::erase_if(held_, [&](const auto& one) {
      if (progress_.knows(one.second.partition)) return false;
      tags.insert(one.first);
      return true;
    });
    desk_.drop(tags);
    dead_.drop(tags);
  }

  void commit_failed(const std::string& error) const {
    environment_.write(
        LogLevel::warning, "commit_failed",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{error}}});
  }

  void offset_reset(const std::string& reason) const {
    const std::string cut = cut_error(reason);
    environment_.write(
        LogLevel::warning, "offset_reset",
        {{"source", std::string_view{options_.group}}, {"reason", std::string_view{cut}}});
  }

  /// A topic that is missing, a right that is missing, a member that was too slow.
  void trouble(const rd_kafka_message_t& message) {
    const std::string cut = cut_error(rd_kafka_message_errstr(&message));
    record_.change([&](SourceStatus& status) { status.error = cut; });
    environment_.write(
        LogLevel::warning, "broker_trouble",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{cut}}});
  }

  const KafkaConnection& connection_;
  const KafkaSourceOptions& options_;
  const Environment& environment_;
  SourceRecord& record_;
  const std::function<void()>& joined_;
  DeliveryDesk desk_;
  kafka::Progress progress_;
  std::map<std::uint64_t, Held> held_;  ///< by tag, in the order of their arrival
  std::uint64_t last_tag_ = 0;
  std::uint64_t retried_ = 0;  ///< told already
  std::string told_;           ///< what went wrong last
  bool paused_ = false;
  bool member_ = false;
  bool consumer_silent_ = false;
  kafka::DeadLetters dead_;  // wakes the consumer
  Consumer consumer_;        // calls the above until it has gone
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
      kafka::check_member(connection_, options_);
    } catch (const std::invalid_argument& error) {
      refuse(error.what());
    }
    if (!accept_) refuse("accept is missing: where its messages go");
  }

  void run(std::stop_token stop) override {
    keep_consuming(stop, options_.group, connection_.max_reconnect_delay, environment_, record_,
                   [&](const auto& joined) {
                     Member member{connection_, options_, accept_, environment_, record_, joined};
                     member.run(stop);
                   });
  }

  [[nodiscard]] SourceStatus status() const override { return record_.get(); }

 private:
  const KafkaConnection connection_;
  const KafkaSourceOptions options_;
  const AcceptCall accept_;
  const Environment environment_;
  SourceRecord record_;
};

}  // namespace

std::unique_ptr<BrokerSource> kafka_source(KafkaConnection connection, KafkaSourceOptions options,
                                           AcceptCall accept, Environment environment) {
  return std::make_unique<KafkaSource>(std::move(connection), std::move(options), std::move(accept),
                                       std::move(environment));
}

}  // namespace twinbox
