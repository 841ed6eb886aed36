#include "transport/kafka/publisher.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using kafka::Fate;
using kafka::Producer;

/// Messages on their way: enough to keep a cluster and the network busy.
constexpr std::size_t window = 10'000;

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
      shown_(kafka::shown(connection_)),
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
  const auto job = tray_.put(
      messages, [&](const Message& message) { return kafka::record_of(message, options_); });
  wake();
  // The client library reports what has taken too long; it looks once a second.
  tray_.wait(*job, options_.timeout + 5s, stop);
  return tray_.outcomes(*job, shown_ + ": not delivered in time");
}

/// Connected while there is work, and from then on; a cluster that is away puts work off.
void KafkaPublisher::Loop::run(const std::stop_token& stop) {
  int failures = 0;
  while (tray_.wait(stop)) {
    bool served = false;
    try {
      Producer producer{connection_, options_.timeout, options_.max_bytes,
                        [this](const rd_kafka_message_t& message) { report(message); }};
      producer.connect(connection_.connect_timeout, stop);
      environment_.write(LogLevel::info, "broker_connected",
                         {{"broker", std::string_view{shown_}}});
      served = true;
      failures = 0;
      serve(producer, stop);
    } catch (const std::exception& error) {
      lost(error.what());
    }
    if (served) continue;
    tray_.put_off_until(
        std::chrono::steady_clock::now() +
            reconnect_delay(++failures, connection_.max_reconnect_delay, environment_),
        stop);
  }
}

/// Whatever ends it, every record that is on its way gets its outcome.
void KafkaPublisher::Loop::serve(Producer& producer, const std::stop_token& stop) {
  {
    const std::scoped_lock lock{mutex_};
    current_ = &producer;
  }
  struct Leave {
    Loop& loop;
    Producer& producer;
    ~Leave() {
      {
        const std::scoped_lock lock{loop.mutex_};
        loop.current_ = nullptr;
      }
      producer.give_up();
      loop.on_way_ = 0;
    }
  } const leave{*this, producer};
  while (!stop.stop_requested()) {
    const bool more = send_some(producer);
    producer.poll(more ? 0ms : 10s);
  }
}

/// Empty: nothing is to be sent now.
std::optional<KafkaPublisher::Loop::Tray::Item> KafkaPublisher::Loop::next_item() {
  if (on_way_ >= window) return {};
  return tray_.next(on_way_);
}

/// False: nothing more can be sent before something else has happened.
bool KafkaPublisher::Loop::send_some(Producer& producer) {
  constexpr int at_once = 500;  // then reports are read
  std::string error;
  for (int i = 0; i < at_once; ++i) {
    auto item = next_item();
    if (!item) return false;
    auto opaque = std::make_unique<Tray::Item>(*item);
    const kafka::Record& record = item->message();
    Producer::Taken taken = Producer::Taken::no;
    try {
      taken = producer.produce(record, opaque.get(), error);
    } catch (const BrokerError&) {
      tray_.put_back(std::move(*item));
      throw;
    }
    switch (taken) {
      case Producer::Taken::yes:
        static_cast<void>(opaque.release());  // until its report
        ++on_way_;
        break;
      case Producer::Taken::full: tray_.put_back(std::move(*item)); return false;
      case Producer::Taken::no:
        tray_.settle(*item, Outcome::retry(shown_ + ": topic '" + record.topic + "': " + error));
        break;
    }
  }
  return true;
}

void KafkaPublisher::Loop::report(const rd_kafka_message_t& message) {
  const std::unique_ptr<Tray::Item> item{static_cast<Tray::Item*>(message._private)};
  --on_way_;
  const bool maybe = rd_kafka_message_status(&message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
  const auto why = [&] {
    return shown_ + ": topic '" + item->message().topic + "': " + rd_kafka_err2str(message.err);
  };
  switch (kafka::fate_of(message.err, maybe)) {
    case Fate::written:
      if (!blocked_.empty()) blocked_.erase(item->message().topic);
      return tray_.settle(*item, Outcome::done());
    case Fate::away:
      if (message.err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT) blocked(item->message().topic);
      return tray_.put_off(*item);
    case Fate::failed: return tray_.settle(*item, Outcome::retry(why()));
    case Fate::refused: break;
  }
  // A request with several records is refused as a whole, and nobody says for which of them.
  if (item->alone) return tray_.settle(*item, Outcome::dead(why()));
  tray_.put_alone(*item);
}

/// The cluster is there and does not take it; the client library tries again until the time is
/// over, and tells nobody why. Said once, until the topic takes something.
void KafkaPublisher::Loop::blocked(const std::string& topic) {
  if (!blocked_.insert(topic).second) return;
  environment_.write(
      LogLevel::warning, "broker_blocked",
      {{"broker", std::string_view{shown_}},
       {"topic", std::string_view{topic}},
       {"error", std::string_view{"nobody took a record within timeout: its partition has no "
                                  "leader, or fewer replicas than min.insync.replicas"}}});
}

void KafkaPublisher::Loop::lost(const std::string& error) const {
  const std::string cut = cut_error(error);
  environment_.write(LogLevel::warning, "broker_lost",
                     {{"broker", std::string_view{shown_}}, {"error", std::string_view{cut}}});
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
