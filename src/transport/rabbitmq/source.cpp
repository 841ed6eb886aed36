#include <algorithm>
#include <map>

#include "transport/accept_thread.hpp"
#include "transport/consume_loop.hpp"
#include "transport/rabbitmq/dead_letter_publisher.hpp"
#include "transport/rabbitmq/topology.hpp"
#include "transport/rabbitmq/wire.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using rabbitmq::Connection;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("rabbitmq source: " + why);
}

void check_name(const char* option, const std::string& name) {
  if (name.size() > 255) refuse(std::string{option} + " has more than 255 bytes");
}

RabbitSourceOptions checked(RabbitSourceOptions options) {
  if (options.queue.empty()) refuse("queue is missing: what to consume from");
  if (options.queue.size() > 250) refuse("queue has more than 250 bytes");
  if (options.queue_type != "quorum" && options.queue_type != "classic") {
    refuse("queue_type '" + options.queue_type + "', expected quorum or classic");
  }
  if (options.prefetch < 1 || options.prefetch > 65'535) refuse("prefetch must be 1 to 65535");
  if (options.retry.max_retries < 0) refuse("max_retries must not be negative");
  if (options.retry.delay < Duration::zero()) refuse("delay must not be negative");
  check_name("dead_letter_exchange", options.dead_letter_exchange);
  for (const RabbitBinding& binding : options.bindings) {
    if (binding.exchange.empty()) refuse("bindings: the default exchange cannot be bound to");
    check_name("bindings", binding.exchange);
    check_name("bindings", binding.routing_key);
    if (binding.exchange == options.dead_letter_exchange) {
      refuse("dead_letter_exchange '" + binding.exchange +
             "' is bound to the queue itself: dead letters would come back");
    }
  }
  return options;
}

/// An unchanged delivery; kept until it is settled.
class Envelope {
 public:
  explicit Envelope(amqp_envelope_t envelope) : envelope_(envelope) {}
  ~Envelope() { amqp_destroy_envelope(&envelope_); }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  [[nodiscard]] const amqp_envelope_t& get() const noexcept { return envelope_; }

 private:
  amqp_envelope_t envelope_;
};

/// The deliveries of one connection.
class Consumer {
 public:
  /// `to`: the address of `connection`, for another connection.
  Consumer(Connection& connection, const RabbitConnection& to, const RabbitSourceOptions& options,
           const AcceptCall& accept, const Environment& environment, SharedSourceStatus& status,
           const rabbitmq::WakeUp& wake)
      : connection_(connection),
        options_(options),
        status_(status),
        wake_(wake),
        dead_letters_(to, options, environment, [&wake] { wake.raise(); }),
        accepting_(AcceptBuffer{accept, options.retry, options.queue, environment},
                   [&wake] { wake.raise(); }) {}

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      wake_.clear();
      if (stop.stop_requested()) break;  // the cleared wake-up may have been the stop request
      settle();
      while (auto delivery =
                 connection_.next_delivery([&](const amqp_frame_t& frame) { read(frame); })) {
        receive(*delivery);
      }
      connection_.wait(wake_, 1h);
    }
    // Accepted deliveries are acknowledged; the next consumer gets the rest.
    accepting_.stop();
    settle();
  }

 private:
  void receive(const amqp_envelope_t& envelope) {
    const std::uint64_t tag = envelope.delivery_tag;
    const auto& kept = *open_.emplace(tag, std::make_unique<Envelope>(envelope)).first->second;
    try {
      accepting_.add({tag, rabbitmq::read_arrival(kept.get(), options_)});
    } catch (const std::invalid_argument& error) {
      accepting_.add({tag, {}, error.what()});
    }
  }

  void settle() {
    std::vector<std::uint64_t> done;
    std::uint64_t duplicates = 0;
    for (AcceptResult& one : accepting_.take()) {
      if (one.accepted) {
        done.push_back(one.tag);
        duplicates += one.accepted->duplicate() ? 1 : 0;
      } else {
        dead_letters_.add(one.tag, open_.at(one.tag)->get(), std::move(one.error));
      }
    }
    acknowledge(done);
    const std::vector<std::uint64_t> published = dead_letters_.take();
    acknowledge(published);
    const auto failures = accepting_.take_failures();
    status_.update([&](SourceStatus& status) {
      status.accepted += done.size() - duplicates;
      status.duplicates += duplicates;
      status.dead += published.size();
      status.retried += failures.first;
      status.error = failures.second;
    });
  }

  /// In one frame if nothing older is open.
  void acknowledge(const std::vector<std::uint64_t>& tags) {
    if (tags.empty()) return;
    for (const std::uint64_t tag : tags) open_.erase(tag);
    const std::uint64_t last = *std::ranges::max_element(tags);
    if (open_.empty() || open_.begin()->first > last) return ack(last, true);
    for (const std::uint64_t tag : tags) ack(tag, false);
  }

  void ack(std::uint64_t tag, bool multiple) {
    connection_.check(
        amqp_basic_ack(connection_.state(), Connection::channel, tag, multiple ? 1 : 0),
        "acknowledging");
  }

  void read(const amqp_frame_t& frame) {
    if (frame.frame_type != AMQP_FRAME_METHOD) return;
    const amqp_method_t& method = frame.payload.method;
    if (method.id == AMQP_BASIC_CANCEL_METHOD) {
      throw BrokerError(connection_.display_name() + ": the queue '" + options_.queue +
                        "' has been deleted or moved");
    }
  }

  Connection& connection_;
  const RabbitSourceOptions& options_;
  SharedSourceStatus& status_;
  const rabbitmq::WakeUp& wake_;
  std::map<std::uint64_t, std::unique_ptr<Envelope>> open_;  ///< by delivery tag
  rabbitmq::DeadLetterPublisher dead_letters_;
  AcceptThread accepting_;
};

class RabbitSource : public BrokerSource {
 public:
  RabbitSource(RabbitConnection connection, RabbitSourceOptions options, AcceptCall accept,
               Environment environment)
      : connection_(std::move(connection)),
        options_(checked(std::move(options))),
        accept_(std::move(accept)),
        environment_(std::move(environment)) {
    try {
      rabbitmq::check(connection_);
    } catch (const std::invalid_argument& error) {
      refuse(error.what());
    }
    if (!accept_) refuse("accept is missing: where its messages go");
  }

  void run(std::stop_token stop) override {
    const std::stop_callback on_stop{stop, [this] { wake_.raise(); }};
    consume_with_reconnect(stop, options_.queue, connection_.max_reconnect_delay, environment_,
                           status_, [&](const auto& connected) { consume(stop, connected); });
  }

  [[nodiscard]] SourceStatus status() const override { return status_.get(); }

 private:
  void consume(const std::stop_token& stop, const std::function<void()>& connected) {
    Connection connection{connection_, stop};
    rabbitmq::prepare(connection, options_);
    amqp_basic_qos(connection.state(), Connection::channel, 0,
                   static_cast<std::uint16_t>(options_.prefetch), 0);
    connection.check_last("setting prefetch");
    // Deliveries arrive right after the request: the members that take them must exist.
    Consumer consumer{connection, connection_, options_, accept_, environment_, status_, wake_};
    amqp_basic_consume(connection.state(), Connection::channel, rabbitmq::bytes_of(options_.queue),
                       amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    connection.check_last("consuming from queue '" + options_.queue + "'");
    connected();
    status_.update([](SourceStatus& status) {
      status.connected = true;
      status.error.clear();
    });
    environment_.write(LogLevel::info, "broker_connected",
                       {{"broker", std::string_view{connection.display_name()}},
                        {"source", std::string_view{options_.queue}}});
    consumer.run(stop);
    connection.close();
  }

  const RabbitConnection connection_;
  const RabbitSourceOptions options_;
  const AcceptCall accept_;
  const Environment environment_;
  rabbitmq::WakeUp wake_;
  SharedSourceStatus status_;
};

}  // namespace

std::unique_ptr<BrokerSource> rabbitmq_source(RabbitConnection connection,
                                              RabbitSourceOptions options, AcceptCall accept,
                                              Environment environment) {
  return std::make_unique<RabbitSource>(std::move(connection), std::move(options),
                                        std::move(accept), std::move(environment));
}

}  // namespace twinbox
