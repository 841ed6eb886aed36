#include "transport/kafka/publisher.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using kafka::Producer;
using kafka::ReportResult;

/// Messages in flight: enough to keep a cluster and the network busy.
constexpr std::size_t max_in_flight = 10'000;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("kafka sink: " + why);
}

KafkaConnection checked(KafkaConnection connection) {
  try {
    kafka::check(connection);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return connection;
}

KafkaSinkOptions checked(KafkaSinkOptions options) {
  if (options.timeout < 10ms) refuse("timeout must be at least 10 ms");
  if (options.max_bytes < 1 || options.max_bytes > 900'000'000) {
    refuse("max_bytes must be 1 to 900000000");
  }
  try {
    if (!options.topic.empty()) kafka::check_topic("topic", options.topic);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return options;
}

}  // namespace

KafkaPublisher::Loop::Loop(KafkaConnection connection, KafkaSinkOptions options,
                           Environment environment)
    : connection_(checked(std::move(connection))),
      options_(checked(std::move(options))),
      environment_(std::move(environment)),
      display_name_(kafka::display_name(connection_)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

KafkaPublisher::Loop::~Loop() {
  thread_.request_stop();
  wake();
  thread_.join();
}

void KafkaPublisher::Loop::wake() {
  const std::scoped_lock lock{mutex_};
  if (current_ != nullptr) current_->wake();
}

std::vector<Outcome> KafkaPublisher::Loop::publish(std::span<const Message> messages,
                                                   std::stop_token stop) {
  const auto batch = queue_.enqueue(
      messages, [&](const Message& message) { return kafka::record_of(message, options_); });
  wake();
  // The client library reports timeouts; it checks once a second.
  queue_.wait(*batch, options_.timeout + 5s, stop);
  return queue_.outcomes(*batch, display_name_ + ": not delivered in time");
}

/// Connects at the first message and stays connected; an unreachable cluster postpones messages.
void KafkaPublisher::Loop::run(const std::stop_token& stop) {
  int failures = 0;
  while (queue_.wait(stop)) {
    bool served = false;
    try {
      Producer producer{connection_, options_.timeout, options_.max_bytes,
                        [this](const rd_kafka_message_t& message) { report(message); }};
      producer.connect(connection_.connect_timeout, stop);
      environment_.write(LogLevel::info, "broker_connected",
                         {{"broker", std::string_view{display_name_}}});
      served = true;
      failures = 0;
      serve(producer, stop);
    } catch (const std::exception& error) {
      lost(error.what());
    }
    if (served) continue;
    queue_.postpone_all_until(
        std::chrono::steady_clock::now() +
            reconnect_delay(++failures, connection_.max_reconnect_delay, environment_),
        stop);
  }
}

/// However it ends, every record in flight gets its outcome.
void KafkaPublisher::Loop::serve(Producer& producer, const std::stop_token& stop) {
  {
    const std::scoped_lock lock{mutex_};
    current_ = &producer;
  }
  struct ScopeGuard {
    Loop& loop;
    Producer& producer;
    ~ScopeGuard() {
      {
        const std::scoped_lock lock{loop.mutex_};
        loop.current_ = nullptr;
      }
      producer.purge();
      loop.in_flight_ = 0;
    }
  } const guard{*this, producer};
  while (!stop.stop_requested()) {
    const bool more = send_some(producer);
    producer.poll(more ? 0ms : 10s);
  }
}

/// Empty: there is nothing to send now.
std::optional<KafkaPublisher::Loop::Queue::Item> KafkaPublisher::Loop::next_item() {
  if (in_flight_ >= max_in_flight) return {};
  return queue_.next(in_flight_);
}

/// False: nothing more can be sent before another event.
bool KafkaPublisher::Loop::send_some(Producer& producer) {
  constexpr int at_once = 500;  // then reports are read
  std::string error;
  for (int i = 0; i < at_once; ++i) {
    auto item = next_item();
    if (!item) return false;
    auto opaque = std::make_unique<Queue::Item>(*item);
    const kafka::Record& record = item->message();
    Producer::ProduceResult result = Producer::ProduceResult::rejected;
    try {
      result = producer.produce(record, opaque.get(), error);
    } catch (const BrokerError&) {
      queue_.push_front(std::move(*item));
      throw;
    }
    switch (result) {
      case Producer::ProduceResult::queued:
        static_cast<void>(opaque.release());  // until its report
        ++in_flight_;
        break;
      case Producer::ProduceResult::queue_full: queue_.push_front(std::move(*item)); return false;
      case Producer::ProduceResult::rejected:
        queue_.settle(*item,
                      Outcome::retry(display_name_ + ": topic '" + record.topic + "': " + error));
        break;
    }
  }
  return true;
}

void KafkaPublisher::Loop::report(const rd_kafka_message_t& message) {
  const std::unique_ptr<Queue::Item> item{static_cast<Queue::Item*>(message._private)};
  --in_flight_;
  const bool maybe = rd_kafka_message_status(&message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
  const auto why = [&] {
    return display_name_ + ": topic '" + item->message().topic +
           "': " + rd_kafka_err2str(message.err);
  };
  switch (kafka::report_result_of(message.err, maybe)) {
    case ReportResult::written:
      if (!blocked_.empty()) blocked_.erase(item->message().topic);
      return queue_.settle(*item, Outcome::done());
    case ReportResult::unreachable:
      if (message.err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT) topic_blocked(item->message().topic);
      return queue_.postpone(*item);
    case ReportResult::failed: return queue_.settle(*item, Outcome::retry(why()));
    case ReportResult::refused: break;
  }
  // A request with several records is refused as a whole, without saying which of them is the
  // cause.
  if (item->isolated) return queue_.settle(*item, Outcome::dead(why()));
  queue_.retry_isolated(*item);
}

/// The cluster is reachable and does not take it; the client library retries until the timeout, and
/// reports no reason. Logged once, until the topic takes a record.
void KafkaPublisher::Loop::topic_blocked(const std::string& topic) {
  if (!blocked_.insert(topic).second) return;
  environment_.write(
      LogLevel::warning, "broker_blocked",
      {{"broker", std::string_view{display_name_}},
       {"topic", std::string_view{topic}},
       {"error", std::string_view{"no broker took a record within timeout: its partition has no "
                                  "leader, or fewer replicas than min.insync.replicas"}}});
}

void KafkaPublisher::Loop::lost(const std::string& error) const {
  const std::string cut = truncate_error(error);
  environment_.write(
      LogLevel::warning, "broker_lost",
      {{"broker", std::string_view{display_name_}}, {"error", std::string_view{cut}}});
}

KafkaPublisher::KafkaPublisher(KafkaConnection connection, KafkaSinkOptions options,
                               Environment environment)
    : loop_(std::make_unique<Loop>(std::move(connection), std::move(options),
                                   std::move(environment))) {}

KafkaPublisher::~KafkaPublisher() = default;

std::vector<Outcome> KafkaPublisher::publish(std::span<const Message> messages,
                                             std::stop_token stop) {
  return loop_->publish(messages, std::move(stop));
}

void KafkaPublisher::send(const CloudEvent& event) {
  const Message message = direct_message(event);
  const Outcome outcome = loop_->publish({&message, 1}, {}).at(0);
  if (outcome.kind() == Outcome::Kind::done) return;
  throw BrokerError(outcome.reason().empty() ? "the cluster cannot be reached; the log says why"
                                             : outcome.reason());
}

BatchHandler kafka_sink(std::shared_ptr<KafkaPublisher> publisher) {
  if (!publisher) throw std::invalid_argument("kafka sink: needs a publisher");
  return
      [publisher = std::move(publisher)](std::span<const Message> messages, std::stop_token stop) {
        return publisher->publish(messages, std::move(stop));
      };
}

}  // namespace twinbox
