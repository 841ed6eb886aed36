#include "transport/rabbitmq/publisher.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "transport/rabbitmq/topology.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using rabbitmq::ChannelClosed;
using rabbitmq::Connection;

/// Messages in flight: enough to keep broker and network busy.
constexpr std::size_t max_in_flight = 2000;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("rabbitmq sink: " + why);
}

RabbitConnection checked(RabbitConnection connection) {
  try {
    rabbitmq::check(connection);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return connection;
}

RabbitSinkOptions checked(RabbitSinkOptions options) {
  if (options.timeout <= Duration::zero()) refuse("timeout must be longer than zero");
  if (options.max_bytes < 1) refuse("max_bytes must be at least 1");
  if (options.exchange.size() > 255) refuse("exchange has more than 255 bytes");
  if (options.routing_key.size() > 255) refuse("routing_key has more than 255 bytes");
  if (options.exchange_type.empty()) refuse("exchange_type is empty; topic, direct, fanout …");
  return options;
}

constexpr const char* confirm_timeout_text = ": not confirmed in time";

/// The outcome of messages whose connection was given up.
constexpr Duration settle_time = 2s;

/// After this many refused messages in a row for a missing permission, the others are postponed:
/// each attempt takes a connection.
constexpr int max_refusals = 3;

}  // namespace

RabbitPublisher::Loop::Cause RabbitPublisher::Loop::cause_of(int code) noexcept {
  constexpr int too_large = 311, not_allowed = 403, refused = 406;
  if (code == too_large || code == refused) return Cause::message;
  return code == not_allowed ? Cause::permission : Cause::broker;
}

RabbitPublisher::Loop::Loop(RabbitConnection connection, RabbitSinkOptions options,
                            Environment environment)
    : connection_(checked(std::move(connection))),
      options_(checked(std::move(options))),
      environment_(std::move(environment)),
      display_name_(rabbitmq::Address::parse(connection_.url).display_name()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

RabbitPublisher::Loop::~Loop() {
  thread_.request_stop();
  wake_.raise();
  interrupt();
  thread_.join();
}

void RabbitPublisher::Loop::interrupt() {
  const std::scoped_lock lock{mutex_};
  if (current_ != nullptr) current_->interrupt();
}

/// A blocked thread must not delay the next call.
void RabbitPublisher::Loop::abort_connection() {
  const std::scoped_lock lock{mutex_};
  if (current_ == nullptr) return;
  timed_out_ = true;
  stuck_ = current_->stuck(options_.timeout / 10);
  current_->interrupt();
}

std::vector<Outcome> RabbitPublisher::Loop::publish(std::span<const Message> messages,
                                                    std::stop_token stop) {
  const auto batch = queue_.enqueue(
      messages, [&](const Message& message) { return rabbitmq::outgoing_of(message, options_); });
  wake_.raise();
  if (!queue_.settled(*batch, options_.timeout, stop) && !stop.stop_requested()) abort_connection();
  queue_.wait(*batch, settle_time, stop);
  return queue_.outcomes(*batch, display_name_ + confirm_timeout_text);
}

/// Connects at the first message and stays connected; an unreachable broker postpones messages.
void RabbitPublisher::Loop::run(const std::stop_token& stop) {
  int failures = 0;
  while (queue_.wait(stop)) {
    bool served = false;
    try {
      Connection connection{connection_, stop};
      rabbitmq::prepare(connection, options_);
      amqp_confirm_select(connection.state(), Connection::channel);
      connection.check_last("switching confirms on");
      environment_.write(LogLevel::info, "broker_connected",
                         {{"broker", std::string_view{display_name_}}});
      served = true;
      failures = 0;
      serve(connection, stop);
    } catch (const ChannelClosed& error) {
      connection_lost(error.what(), cause_of(error.code()));
    } catch (const std::exception& error) {
      connection_lost(error.what(), Cause::broker);
    }
    if (blocked_ || refusals_ >= max_refusals) {
      queue_.postpone_all_until({}, stop);
      refusals_ = 0;
      blocked_ = false;
    }
    if (served) continue;
    queue_.postpone_all_until(
        std::chrono::steady_clock::now() +
            reconnect_delay(++failures, connection_.max_reconnect_delay, environment_),
        stop);
  }
}

void RabbitPublisher::Loop::serve(Connection& connection, const std::stop_token& stop) {
  {
    const std::scoped_lock lock{mutex_};
    current_ = &connection;
    timed_out_ = stuck_ = false;
  }
  struct ScopeGuard {
    Loop& loop;
    ~ScopeGuard() {
      const std::scoped_lock lock{loop.mutex_};
      loop.current_ = nullptr;
    }
  } const guard{*this};
  sequence_ = 0;
  blocked_ = false;
  while (!stop.stop_requested()) {
    wake_.clear();
    if (blocked_) queue_.postpone_all_until({}, stop);
    const bool sent = !blocked_ && send_some(connection);
    const bool heard = read_frames(connection);
    if (!sent && !heard) connection.wait(wake_, 10s);
  }
}

/// Empty: there is nothing to send now.
std::optional<RabbitPublisher::Loop::Queue::Item> RabbitPublisher::Loop::next_item() {
  if (sent_.size() >= max_in_flight) return {};
  return queue_.next(sent_.size());
}

/// False: nothing is to be sent now.
bool RabbitPublisher::Loop::send_some(Connection& connection) {
  // Then confirms are read; and whether the broker takes any more, before the next write waits.
  constexpr int at_once = 64;
  constexpr std::size_t bytes_at_once = 256UL * 1024;
  auto item = next_item();
  if (!item) return false;
  connection.set_cork(true);
  std::size_t bytes = 0;
  for (int i = 0; item;
       item = ++i < at_once && bytes < bytes_at_once ? next_item() : std::nullopt) {
    const rabbitmq::Outgoing& message = item->message();
    bytes += message.wire_message.body.size();
    const std::uint64_t sequence = ++sequence_;
    sent_.emplace(sequence, Sent{std::move(*item)});
    rabbitmq::publish(connection, options_.exchange, message, sequence);
  }
  connection.set_cork(false);
  return true;
}

/// False: there was nothing.
bool RabbitPublisher::Loop::read_frames(Connection& connection) {
  bool heard = false;
  while (const auto frame = connection.next_frame()) {
    read(connection, *frame);
    heard = true;
  }
  return heard;
}

void RabbitPublisher::Loop::read(Connection& connection, const amqp_frame_t& frame) {
  if (frame.frame_type != AMQP_FRAME_METHOD) return;
  const amqp_method_t& method = frame.payload.method;
  if (method.id == AMQP_BASIC_ACK_METHOD) {
    const auto* ack = static_cast<const amqp_basic_ack_t*>(method.decoded);
    confirm(ack->delivery_tag, ack->multiple != 0, true);
  } else if (method.id == AMQP_BASIC_NACK_METHOD) {
    const auto* nack = static_cast<const amqp_basic_nack_t*>(method.decoded);
    confirm(nack->delivery_tag, nack->multiple != 0, false);
  } else if (method.id == AMQP_BASIC_RETURN_METHOD) {
    // Its confirm follows, as if it had been taken.
    if (const auto sequence = rabbitmq::read_returned(connection)) {
      if (const auto found = sent_.find(*sequence); found != sent_.end()) {
        found->second.returned = true;
      }
    }
  } else if (method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
    block();
  } else if (method.id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
    blocked_ = false;
  }
}

/// Out of memory or disk, the broker reads no more: unconfirmed messages may take an hour. It
/// counts as unreachable.
void RabbitPublisher::Loop::block() {
  blocked_ = true;
  environment_.write(LogLevel::warning, "broker_blocked",
                     {{"broker", std::string_view{display_name_}}});
  for (const auto& [sequence, one] : sent_) queue_.postpone(one.item);
}

void RabbitPublisher::Loop::confirm(std::uint64_t sequence, bool multiple, bool taken) {
  const auto end = sent_.upper_bound(sequence);
  // A message that is not in flight needs no outcome.
  for (auto one = multiple ? sent_.begin() : sent_.lower_bound(sequence); one != end;) {
    const auto& [item, returned] = one->second;
    if (!taken) {
      queue_.settle(item,
                    Outcome::retry(display_name_ + ": the broker refused it; a queue may be full"));
    } else if (returned) {
      queue_.settle(item, Outcome::retry(display_name_ + ": no queue takes routing key '" +
                                         item.message().routing_key + "' from exchange '" +
                                         options_.exchange + "'; bind one"));
    } else {
      queue_.settle(item, Outcome::done());
    }
    one = sent_.erase(one);
    refusals_ = 0;
  }
}

/// Messages in flight may have arrived or not: they are sent again, under the same id. Sending each
/// alone finds the one that closes the channel.
void RabbitPublisher::Loop::connection_lost(const std::string& error, Cause cause) {
  std::string cut = truncate_error(error);
  bool stuck = false;
  {
    const std::scoped_lock lock{mutex_};
    if (std::exchange(timed_out_, false)) cut = display_name_ + confirm_timeout_text;
    stuck = std::exchange(stuck_, false);
  }
  if (stuck) block();
  environment_.write(
      LogLevel::warning, "broker_lost",
      {{"broker", std::string_view{display_name_}}, {"error", std::string_view{cut}}});
  for (const auto& [sequence, one] : sent_) {
    if (cause != Cause::broker && sent_.size() > 1) {
      queue_.retry_isolated(one.item);
      continue;
    }
    queue_.settle(one.item, cause == Cause::message ? Outcome::dead(cut) : Outcome::retry(cut));
    if (cause == Cause::permission) ++refusals_;
  }
  sent_.clear();
}

RabbitPublisher::RabbitPublisher(RabbitConnection connection, RabbitSinkOptions options,
                                 Environment environment)
    : loop_(std::make_unique<Loop>(std::move(connection), std::move(options),
                                   std::move(environment))) {}

RabbitPublisher::~RabbitPublisher() = default;

std::vector<Outcome> RabbitPublisher::publish(std::span<const Message> messages,
                                              std::stop_token stop) {
  return loop_->publish(messages, std::move(stop));
}

void RabbitPublisher::send(const CloudEvent& event) {
  const Message message = direct_message(event);
  const Outcome outcome = loop_->publish({&message, 1}, {}).at(0);
  if (outcome.kind() == Outcome::Kind::done) return;
  throw BrokerError(outcome.reason().empty() ? "the broker cannot be reached; the log says why"
                                             : outcome.reason());
}

BatchHandler rabbitmq_sink(std::shared_ptr<RabbitPublisher> publisher) {
  if (!publisher) throw std::invalid_argument("rabbitmq sink: needs a publisher");
  return
      [publisher = std::move(publisher)](std::span<const Message> messages, std::stop_token stop) {
        return publisher->publish(messages, std::move(stop));
      };
}

}  // namespace twinbox
