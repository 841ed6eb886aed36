#include "transport/rabbitmq/dead_letter_publisher.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "transport/rabbitmq/wire.hpp"
#include "transport/reconnect.hpp"

namespace twinbox::rabbitmq {

using namespace std::chrono_literals;

DeadLetterPublisher::DeadLetterPublisher(const RabbitConnection& to,
                                         const RabbitSourceOptions& options,
                                         const Environment& environment, std::function<void()> wake)
    : connection_options_(to),
      options_(options),
      environment_(environment),
      wake_caller_(std::move(wake)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void DeadLetterPublisher::add(std::uint64_t tag, const amqp_envelope_t& envelope,
                              std::string error) {
  const std::scoped_lock lock{mutex_};
  incoming_.push_back({tag, &envelope, std::move(error)});
  changed_.notify_one();
  wake_.raise();
}

std::vector<std::uint64_t> DeadLetterPublisher::take() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(published_, {});
}

void DeadLetterPublisher::run(const std::stop_token& stop) {
  while (wait(stop)) {
    try {
      Connection connection{connection_options_, stop};
      const std::stop_callback on_stop{stop, [&] { connection.interrupt(); }};
      amqp_confirm_select(connection.state(), Connection::channel);
      connection.check_last("switching confirms on");
      serve(connection, stop);
    } catch (const std::exception& error) {
      if (stop.stop_requested()) return;
      connection_lost(error.what());
      back_off(reconnect_delay(++failures_, connection_options_.max_reconnect_delay, environment_),
               stop);
    }
  }
}

/// Until there is something to publish; false: a stop is requested.
bool DeadLetterPublisher::wait(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, stop, [&] { return !incoming_.empty() || !pending_dead_letters_.empty(); });
  return !stop.stop_requested();
}

void DeadLetterPublisher::back_off(Duration time, const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, stop, time, [] { return false; });
}

void DeadLetterPublisher::serve(Connection& connection, const std::stop_token& stop) {
  sequence_ = 0;
  while (!stop.stop_requested()) {
    wake_.clear();
    take_incoming();
    publish_pending(connection);
    while (const auto frame = connection.next_frame()) read(connection, *frame);
    connection.wait(wake_, until_next());
  }
}

void DeadLetterPublisher::take_incoming() {
  const std::scoped_lock lock{mutex_};
  std::ranges::move(incoming_, std::back_inserter(pending_dead_letters_));
  incoming_.clear();
}

/// After a failure one by one: one of them may be what makes the broker close the channel.
void DeadLetterPublisher::publish_pending(Connection& connection) {
  const auto now = Clock::now();
  const bool alone = failures_ > 0;
  if (alone && std::ranges::any_of(pending_dead_letters_, [](const PendingDeadLetter& one) {
        return one.sequence != 0;
      })) {
    return;
  }
  for (PendingDeadLetter& pending : pending_dead_letters_) {
    if (pending.sequence != 0 || pending.not_before > now) continue;
    pending.sequence = ++sequence_;
    pending.returned = false;
    publish_dead_letter(connection, options_, *pending.envelope, pending.error, pending.sequence);
    if (alone) return;
  }
}

Duration DeadLetterPublisher::until_next() const {
  Duration left = 1h;
  for (const PendingDeadLetter& pending : pending_dead_letters_) {
    if (pending.sequence != 0) continue;
    left = std::min(left, std::chrono::ceil<Duration>(pending.not_before - Clock::now()));
  }
  return left;
}

void DeadLetterPublisher::read(Connection& connection, const amqp_frame_t& frame) {
  if (frame.frame_type != AMQP_FRAME_METHOD) return;
  const amqp_method_t& method = frame.payload.method;
  if (method.id == AMQP_BASIC_ACK_METHOD) {
    const auto* ack = static_cast<const amqp_basic_ack_t*>(method.decoded);
    confirm(ack->delivery_tag, ack->multiple != 0, true);
  } else if (method.id == AMQP_BASIC_NACK_METHOD) {
    const auto* nack = static_cast<const amqp_basic_nack_t*>(method.decoded);
    confirm(nack->delivery_tag, nack->multiple != 0, false);
  } else if (method.id == AMQP_BASIC_RETURN_METHOD) {
    const auto sequence = read_returned(connection);
    // One without a sequence may be any of them: a duplicate is better than a loss.
    for (PendingDeadLetter& pending : pending_dead_letters_) {
      pending.returned = pending.returned || !sequence || pending.sequence == sequence;
    }
  } else if (method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
    environment_.write(LogLevel::warning, "broker_blocked",
                       {{"broker", std::string_view{connection.display_name()}},
                        {"source", std::string_view{options_.queue}}});
  }
}

void DeadLetterPublisher::confirm(std::uint64_t sequence, bool multiple, bool taken) {
  std::vector<std::uint64_t> published;
  for (PendingDeadLetter& pending : pending_dead_letters_) {
    const bool meant = pending.sequence != 0 &&
                       (multiple ? pending.sequence <= sequence : pending.sequence == sequence);
    if (!meant) continue;
    failures_ = 0;
    if (!taken || pending.returned) {
      retry_later(pending);
      log_failure(taken ? "unroutable" : "refused");
      continue;
    }
    published.push_back(pending.tag);
    const std::string cut = truncate_error(pending.error);
    environment_.write(
        LogLevel::error, "dead_letter",
        {{"source", std::string_view{options_.queue}}, {"error", std::string_view{cut}}});
  }
  std::erase_if(pending_dead_letters_, [&](const PendingDeadLetter& pending) {
    return std::ranges::find(published, pending.tag) != published.end();
  });
  {
    const std::scoped_lock lock{mutex_};
    published_.insert(published_.end(), published.begin(), published.end());
  }
  wake_caller_();
}

/// Nothing is lost: it stays in the queue until its destination can be reached.
void DeadLetterPublisher::retry_later(PendingDeadLetter& pending) const {
  pending.sequence = 0;
  pending.not_before = Clock::now() + std::max<Duration>(options_.retry.delay, 100ms);
}

void DeadLetterPublisher::connection_lost(const std::string& error) {
  take_incoming();
  if (pending_dead_letters_.empty()) return;
  // The next time others come first.
  const auto sent =
      std::stable_partition(pending_dead_letters_.begin(), pending_dead_letters_.end(),
                            [](const PendingDeadLetter& one) { return one.sequence == 0; });
  std::for_each(sent, pending_dead_letters_.end(),
                [&](PendingDeadLetter& pending) { retry_later(pending); });
  log_failure(error);
}

void DeadLetterPublisher::log_failure(std::string_view reason) const {
  const std::string cut = truncate_error(reason);
  environment_.write(
      LogLevel::error, "dead_letter_failed",
      {{"source", std::string_view{options_.queue}}, {"reason", std::string_view{cut}}});
}

}  // namespace twinbox::rabbitmq
