#include "transport/rabbitmq/undertaker.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "transport/rabbitmq/wire.hpp"
#include "transport/reconnect.hpp"

namespace twinbox::rabbitmq {

using namespace std::chrono_literals;

Undertaker::Undertaker(const RabbitConnection& to, const RabbitSourceOptions& options,
                       const Environment& environment, std::function<void()> wake)
    : to_(to),
      options_(options),
      environment_(environment),
      wake_caller_(std::move(wake)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Undertaker::add(std::uint64_t tag, const amqp_envelope_t& envelope, std::string error) {
  const std::scoped_lock lock{mutex_};
  came_.push_back({tag, &envelope, std::move(error)});
  some_.notify_one();
  wake_.raise();
}

std::vector<std::uint64_t> Undertaker::take() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(buried_, {});
}

void Undertaker::run(const std::stop_token& stop) {
  while (wait(stop)) {
    try {
      Connection connection{to_, stop};
      const std::stop_callback on_stop{stop, [&] { connection.interrupt(); }};
      amqp_confirm_select(connection.state(), Connection::channel);
      connection.check_last("switching confirms on");
      serve(connection, stop);
    } catch (const std::exception& error) {
      if (stop.stop_requested()) return;
      connection_lost(error.what());
      rest(reconnect_delay(++failures_, to_.max_reconnect_delay, environment_), stop);
    }
  }
}

/// Until there is something to bury; false: a stop is requested.
bool Undertaker::wait(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  some_.wait(lock, stop, [&] { return !came_.empty() || !graves_.empty(); });
  return !stop.stop_requested();
}

void Undertaker::rest(Duration time, const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  some_.wait_for(lock, stop, time, [] { return false; });
}

void Undertaker::serve(Connection& connection, const std::stop_token& stop) {
  sequence_ = 0;
  while (!stop.stop_requested()) {
    wake_.clear();
    collect();
    bury(connection);
    while (const auto frame = connection.next_frame()) read(connection, *frame);
    connection.wait(wake_, until_next());
  }
}

void Undertaker::collect() {
  const std::scoped_lock lock{mutex_};
  std::ranges::move(came_, std::back_inserter(graves_));
  came_.clear();
}

/// After a failure one by one: it may be one of them that makes the broker close the channel.
void Undertaker::bury(Connection& connection) {
  const auto now = Clock::now();
  const bool alone = failures_ > 0;
  if (alone && std::ranges::any_of(graves_, [](const Grave& one) { return one.sequence != 0; })) {
    return;
  }
  for (Grave& grave : graves_) {
    if (grave.sequence != 0 || grave.not_before > now) continue;
    grave.sequence = ++sequence_;
    grave.returned = false;
    publish_dead(connection, options_, *grave.envelope, grave.error, grave.sequence);
    if (alone) return;
  }
}

Duration Undertaker::until_next() const {
  Duration left = 1h;
  for (const Grave& grave : graves_) {
    if (grave.sequence != 0) continue;
    left = std::min(left, std::chrono::ceil<Duration>(grave.not_before - Clock::now()));
  }
  return left;
}

void Undertaker::read(Connection& connection, const amqp_frame_t& frame) {
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
    // One without a sequence may be any of them: better one twice than one lost.
    for (Grave& grave : graves_) {
      grave.returned = grave.returned || !sequence || grave.sequence == sequence;
    }
  } else if (method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
    environment_.write(LogLevel::warning, "broker_blocked",
                       {{"broker", std::string_view{connection.shown()}},
                        {"source", std::string_view{options_.queue}}});
  }
}

void Undertaker::confirm(std::uint64_t sequence, bool multiple, bool taken) {
  std::vector<std::uint64_t> buried;
  for (Grave& grave : graves_) {
    const bool meant =
        grave.sequence != 0 && (multiple ? grave.sequence <= sequence : grave.sequence == sequence);
    if (!meant) continue;
    failures_ = 0;
    if (!taken || grave.returned) {
      put_off(grave);
      tell_failure(taken ? "unroutable" : "refused");
      continue;
    }
    buried.push_back(grave.tag);
    const std::string cut = cut_error(grave.error);
    environment_.write(
        LogLevel::error, "dead_letter",
        {{"source", std::string_view{options_.queue}}, {"error", std::string_view{cut}}});
  }
  std::erase_if(graves_, [&](const Grave& grave) {
    return std::ranges::find(buried, grave.tag) != buried.end();
  });
  {
    const std::scoped_lock lock{mutex_};
    buried_.insert(buried_.end(), buried.begin(), buried.end());
  }
  wake_caller_();
}

/// Nothing is lost: it stays with the queue until its place can be reached.
void Undertaker::put_off(Grave& grave) const {
  grave.sequence = 0;
  grave.not_before = Clock::now() + std::max<Duration>(options_.retry.delay, 100ms);
}

void Undertaker::connection_lost(const std::string& error) {
  collect();
  if (graves_.empty()) return;
  // The next time others come first.
  const auto sent = std::stable_partition(graves_.begin(), graves_.end(),
                                          [](const Grave& one) { return one.sequence == 0; });
  std::for_each(sent, graves_.end(), [&](Grave& grave) { put_off(grave); });
  tell_failure(error);
}

void Undertaker::tell_failure(std::string_view reason) const {
  const std::string cut = cut_error(reason);
  environment_.write(
      LogLevel::error, "dead_letter_failed",
      {{"source", std::string_view{options_.queue}}, {"reason", std::string_view{cut}}});
}

}  // namespace twinbox::rabbitmq
