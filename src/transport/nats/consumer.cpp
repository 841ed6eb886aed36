#include "transport/nats/consumer.hpp"

#include <algorithm>
#include <limits>

#include "core/text.hpp"
#include "transport/nats/topology.hpp"

namespace twinbox::nats {
namespace {

using namespace std::chrono_literals;

/// A server may have dropped a request.
constexpr auto request_limit = 10s;
constexpr auto answer_timeout = 10s;

std::chrono::steady_clock::duration ack_wait_of(const jsConsumerInfo& info) {
  const std::int64_t nanoseconds = info.Config->AckWait;
  return nanoseconds > 0 ? std::chrono::nanoseconds{nanoseconds} : std::chrono::nanoseconds{30s};
}

/// A request above a consumer's limit gets nothing. Zero: no limit.
template <class T>
T allowed(T wanted, std::int64_t limit) {
  return limit > 0 ? std::min(wanted, T{limit}) : wanted;
}

std::int64_t max_deliver_of(const NatsSourceOptions& options, const jsConsumerInfo& info) {
  const std::int64_t ours =
      options.max_deliver > 0 ? options.max_deliver : std::numeric_limits<std::int64_t>::max();
  return allowed(ours, info.Config->MaxDeliver);
}

/// Unacknowledged deliveries, except those that we returned ourselves: no order depends on them.
PendingRedeliveries pending_redeliveries_of(const jsConsumerInfo& info, const NakTracker& naks) {
  const auto pending = static_cast<std::uint64_t>(info.NumAckPending);
  return {info.Delivered.Stream, pending - std::min<std::uint64_t>(pending, naks.all().size())};
}

}  // namespace

void ReceiveQueue::receive(MessagePtr nats_message) {
  const std::scoped_lock lock{mutex_};
  messages_.push_back(std::move(nats_message));
  changed_.notify_all();
}

void ReceiveQueue::refused(const std::string& subject, const std::string& text) {
  constexpr std::size_t most = 100;  // a user without permission may get a thousand errors
  const std::scoped_lock lock{mutex_};
  if (refusals_.size() < most) refusals_.push_back({subject, text});
  woken_ = true;
  changed_.notify_all();
}

std::vector<ReceiveQueue::Refusal> ReceiveQueue::take_refusals() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(refusals_, {});
}

void ReceiveQueue::closed() {
  const std::scoped_lock lock{mutex_};
  closed_ = true;
  changed_.notify_all();
}

void ReceiveQueue::wake() {
  const std::scoped_lock lock{mutex_};
  woken_ = true;
  changed_.notify_all();
}

std::vector<MessagePtr> ReceiveQueue::take(const std::stop_token& stop, Time limit) {
  std::unique_lock lock{mutex_};
  changed_.wait_until(lock, stop, limit, [&] { return woken_ || closed_ || !messages_.empty(); });
  woken_ = false;
  return std::exchange(messages_, {});
}

bool ReceiveQueue::is_closed() const {
  const std::scoped_lock lock{mutex_};
  return closed_;
}

Consumer::Consumer(Connection& connection, std::shared_ptr<ReceiveQueue> received,
                   const jsConsumerInfo& info, const NatsSourceOptions& options,
                   const AcceptCall& accept, const Environment& environment,
                   SharedSourceStatus& status, NakTracker& naks)
    : connection_(connection),
      received_(std::move(received)),
      options_(options),
      environment_(environment),
      status_(status),
      naks_(naks),
      ack_wait_(ack_wait_of(info)),
      max_deliver_(max_deliver_of(options, info)),
      request_size_(allowed<std::int64_t>(options.prefetch, info.Config->MaxRequestBatch)),
      request_time_(
          allowed<std::chrono::nanoseconds>(request_limit, info.Config->MaxRequestExpires)),
      pending_redeliveries_(pending_redeliveries_of(info, naks)),
      extend_at_(begin_ + ack_wait_ / 3),
      accepting_(AcceptBuffer{accept, options.retry, name(), environment},
                 [queue = received_] { queue->wake(); }) {}

std::string Consumer::name() const { return options_.stream.name + "/" + options_.consumer; }

std::string Consumer::pull_subject() const {
  return "$JS.API.CONSUMER.MSG.NEXT." + options_.stream.name + "." + options_.consumer;
}

void Consumer::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    handle_refusals();
    settle();
    publish_dead_letters();
    extend_ack_wait();
    check_pending_redeliveries();
    pull();
    const bool closed =
        received_
            ->is_closed();  // before the arrived messages are taken, or the last ones were missed
    for (MessagePtr& nats_message : received_->take(stop, next_time()))
      receive(std::move(nats_message));
    if (closed) throw BrokerError(connection_.last_error());
  }
  accepting_.stop();
  settle();
  nak_all();
}

/// A missing permission is logged once, not for every acknowledged message.
void Consumer::handle_refusals() {
  for (const ReceiveQueue::Refusal& one : received_->take_refusals()) {
    pull_refused_ = one.subject == pull_subject();
    refusal_ = connection_.display_name() + ": " + one.text;
    const bool answering = one.subject.starts_with("$JS.ACK.");  // each has its own subject
    if (!logged_refusals_.insert(answering ? "$JS.ACK." : one.subject).second) continue;
    const std::string source = name();
    const std::string cut = truncate_error(refusal_);
    environment_.write(LogLevel::warning, "broker_error",
                       {{"source", std::string_view{source}}, {"error", std::string_view{cut}}});
  }
}

/// Requests as much as there is room for, once the last request is served.
void Consumer::pull() {
  const auto now = Clock::now();
  if ((pull_remaining_ > 0 && now < pull_expires_at_) || now < next_pull_at_) return;
  auto room = std::int64_t{options_.prefetch} - static_cast<std::int64_t>(open_.size());
  // After each ack_wait overdue deliveries come first, and may block everything that waits here.
  if (pending_redeliveries_.open()) {
    room += static_cast<std::int64_t>(pending_redeliveries_.count()) * ((now - begin_) / ack_wait_);
  }
  if (room < std::max(1, options_.prefetch / 4)) return;
  pull_remaining_ = std::min(room, request_size_);
  pull_expires_at_ = now + request_time_ + 2s;
  const std::string request = R"({"batch":)" + std::to_string(pull_remaining_) + R"(,"expires":)" +
                              std::to_string(std::chrono::nanoseconds{request_time_}.count()) + "}";
  connection_.check(
      connection_.publish(pull_subject(),
                          connection_.inbox() + "pull." + std::to_string(++requests_), request),
      "asking for deliveries");
}

void Consumer::receive(MessagePtr nats_message) {
  if (const auto metadata = delivery_metadata_of(*nats_message))
    return deliver(std::move(nats_message), *metadata);
  const std::string_view subject = natsMsg_GetSubject(nats_message.get());
  if (subject.starts_with(connection_.inbox() + "dead."))
    return read_dead_letter_answer(*nats_message);
  // Answers to earlier requests say nothing about the last one.
  if (subject == connection_.inbox() + "pull." + std::to_string(requests_))
    read_status(*nats_message);
}

void Consumer::read_status(natsMsg& message) {
  const Headers headers = read_headers(message);
  const std::string& status = headers.status;
  const std::string& text = headers.description;
  if (status == "100") return;
  pull_remaining_ = 0;
  if (status == "404" || status == "408") return;
  const bool passes = status == "409" && !text.starts_with("Consumer ");
  if (!passes) {
    throw BrokerError(connection_.display_name() + ": consumer " + name() + " gives nothing: " +
                      (status == "503" ? "it has been deleted" : status + " " + text));
  }
  next_pull_at_ = Clock::now() + 500ms;  // a new leader, a limit of the server
}

BrokerDelivery Consumer::read(natsMsg& message, const DeliveryMetadata& metadata) const {
  if (options_.max_deliver > 0 &&
      metadata.delivered > static_cast<std::uint64_t>(options_.max_deliver)) {
    return {metadata.sequence,
            {},
            "delivered " + std::to_string(metadata.delivered) +
                " times without being accepted; max_deliver allows " +
                std::to_string(options_.max_deliver)};
  }
  try {
    BrokerDelivery delivery{metadata.sequence, read_arrival(message, metadata, options_)};
    delivery.failures = naks_.failures(metadata.sequence);
    delivery.can_redeliver = !delivery.arrival->extras.partition_key &&
                             metadata.delivered < static_cast<std::uint64_t>(max_deliver_);
    return delivery;
  } catch (const std::invalid_argument& error) {
    return {metadata.sequence, {}, error.what()};
  }
}

void Consumer::deliver(MessagePtr nats_message, const DeliveryMetadata& metadata) {
  if (pull_remaining_ > 0) --pull_remaining_;
  if (std::exchange(pull_refused_, false)) refusal_.clear();
  const std::uint64_t sequence = metadata.sequence;
  const auto known = open_.find(sequence);
  if (known != open_.end()) {  // our progress report came too late
    known->second = {std::move(nats_message), metadata};
    return;
  }
  BrokerDelivery delivery = read(*nats_message, metadata);
  open_.emplace(sequence, OpenDelivery{std::move(nats_message), metadata});
  const bool waits = pending_redeliveries_.open() && delivery.arrival &&
                     delivery.arrival->extras.partition_key.has_value();
  if (naks_.failures(sequence) == 0) pending_redeliveries_.on_received(sequence);
  if (waits) {
    held_.emplace(sequence, std::move(delivery));
  } else {
    accepting_.add(std::move(delivery));
  }
  if (!pending_redeliveries_.open()) accept_held();
}

void Consumer::accept_held() {
  for (auto& [sequence, delivery] : std::exchange(held_, {})) accepting_.add(std::move(delivery));
}

/// Other consumers may have deliveries that were unacknowledged when we began: the server knows
/// when they are settled.
void Consumer::check_pending_redeliveries() {
  const auto now = Clock::now();
  if (!pending_redeliveries_.open() || now < check_at_) return;
  check_at_ = now + 250ms;
  const auto info = find_consumer(connection_, options_.stream.name, options_.consumer);
  if (info) {
    naks_.update(info->AckFloor.Stream, info->Delivered.Stream);
    const auto elsewhere = std::ranges::count_if(
        naks_.all(), [&](const auto& one) { return !open_.contains(one.first); });
    pending_redeliveries_.update(info->AckFloor.Stream,
                                 static_cast<std::uint64_t>(info->NumAckPending),
                                 open_.size() + static_cast<std::uint64_t>(elsewhere));
  }
  if (pending_redeliveries_.open() && now > begin_ + 3 * ack_wait_ + 5s) {
    pending_redeliveries_.end();
    const std::string source = name();
    environment_.write(LogLevel::warning, "order_not_guaranteed",
                       {{"source", std::string_view{source}}});
  }
  if (!pending_redeliveries_.open()) accept_held();
}

void Consumer::settle() {
  std::uint64_t accepted = 0, duplicates = 0;
  for (AcceptResult& one : accepting_.take()) {
    if (one.accepted) {
      answer(one.tag, "+ACK");
      forget(one.tag);
      (one.accepted->duplicate() ? duplicates : accepted) += 1;
    } else if (one.redeliver_after) {
      nak(one.tag, *one.redeliver_after);
    } else {
      pending_dead_letters_.push_back({one.tag, truncate_error(one.error), Clock::now()});
    }
  }
  const auto failures = accepting_.take_failures();
  status_.update([&](SourceStatus& status) {
    status.accepted += accepted;
    status.duplicates += duplicates;
    status.retried += failures.first;
    status.error = failures.second.empty() ? refusal_ : failures.second;
  });
}

/// The server redelivers it after the delay, to any consumer; its slot here is free.
void Consumer::nak(std::uint64_t sequence, Duration delay) {
  const auto found = open_.find(sequence);
  if (found == open_.end()) return;
  naks_.add(sequence, natsMsg_GetReply(found->second.nats_message.get()));
  answer(sequence,
         R"(-NAK {"delay":)" + std::to_string(std::chrono::nanoseconds{delay}.count()) + "}");
  open_.erase(found);
}

/// It is not redelivered.
void Consumer::forget(std::uint64_t sequence) {
  open_.erase(sequence);
  naks_.settled(sequence);
}

void Consumer::answer(std::uint64_t sequence, const std::string& word) {
  const auto found = open_.find(sequence);
  if (found == open_.end()) return;
  connection_.check(
      connection_.publish(natsMsg_GetReply(found->second.nats_message.get()), "", word),
      "acknowledging");
}

/// Reports progress on the open deliveries.
void Consumer::extend_ack_wait() {
  const auto now = Clock::now();
  if (now < extend_at_) return;
  extend_at_ = now + ack_wait_ / 3;
  for (const auto& [sequence, open] : open_) answer(sequence, "+WPI");
}

/// Publishes dead letters; a delivery ends when a stream has stored it.
void Consumer::publish_dead_letters() {
  const auto now = Clock::now();
  for (PendingDeadLetter& pending : pending_dead_letters_) {
    if (pending.not_before > now) continue;
    pending.number = ++dead_letter_publishes_;
    pending.not_before = now + answer_timeout;
    const OpenDelivery& open = open_.at(pending.sequence);
    const std::string reply = connection_.inbox() + "dead." + std::to_string(pending.number);
    const MessagePtr nats_message =
        pending.without_reason
            ? dead_letter_without_reason(*open.nats_message, options_, reply)
            : dead_letter(*open.nats_message, open.metadata, options_, pending.error, reply);
    const natsStatus status = connection_.publish(*nats_message);
    if (status == NATS_MAX_PAYLOAD) {
      if (!std::exchange(pending.without_reason, true)) {
        pending.not_before = now;
      } else {  // the server took it once, when its limit was higher
        retry_later(pending, "larger than max_payload of the server");
      }
      continue;
    }
    connection_.check(status, "a dead letter");
  }
}

void Consumer::read_dead_letter_answer(natsMsg& message) {
  const std::string number = std::string{natsMsg_GetSubject(&message)}.substr(
      connection_.inbox().size() + std::string{"dead."}.size());
  const auto pending = std::ranges::find_if(
      pending_dead_letters_,
      [&](const PendingDeadLetter& one) { return std::to_string(one.number) == number; });
  if (pending == pending_dead_letters_.end()) return;
  const std::string source = name();
  const PublishAck ack = read_publish_ack(message);
  if (ack.kind != PublishAck::Kind::stored) {
    const bool no_stream = ack.kind == PublishAck::Kind::no_stream;
    return retry_later(*pending,
                       no_stream ? "no stream takes its subject" : std::string_view{ack.text});
  }
  environment_.write(
      LogLevel::error, "dead_letter",
      {{"source", std::string_view{source}}, {"error", std::string_view{pending->error}}});
  answer(pending->sequence, "+TERM");
  forget(pending->sequence);
  pending_dead_letters_.erase(pending);
  status_.update([](SourceStatus& status) { ++status.dead; });
}

/// Nothing is lost: it stays in its stream until its destination can be reached.
void Consumer::retry_later(PendingDeadLetter& pending, std::string_view reason) const {
  pending.not_before = Clock::now() + std::max<Duration>(options_.retry.delay, 100ms);
  const std::string source = name();
  environment_.write(LogLevel::error, "dead_letter_failed",
                     {{"source", std::string_view{source}}, {"reason", reason}});
}

/// The next consumer gets it at once, instead of after ack_wait or its delay.
void Consumer::nak_all() {
  connection_.drain(2s);
  for (MessagePtr& nats_message : received_->take({}, Clock::now())) {
    if (const auto metadata = delivery_metadata_of(*nats_message)) {
      open_.try_emplace(metadata->sequence, OpenDelivery{std::move(nats_message), *metadata});
    }
  }
  // After a query for the consumer, a server drops our last request; with an open one (2.9) it
  // would count returned deliveries as delivered.
  if (!open_.empty() || !naks_.all().empty()) {
    const auto info = find_consumer(connection_, options_.stream.name, options_.consumer);
    if (info) naks_.update(info->AckFloor.Stream, info->Delivered.Stream);
  }
  for (const auto& [sequence, open] : open_) answer(sequence, "-NAK");
  for (const auto& [sequence, one] : naks_.all()) {
    if (open_.contains(sequence)) continue;
    connection_.check(connection_.publish(one.reply, "", "-NAK"), "giving back");
  }
  connection_.flush(2s);
}

Consumer::Clock::time_point Consumer::next_time() const {
  auto next = Clock::now() + 1h;
  const auto sooner = [&](bool if_so, Clock::time_point time) {
    if (if_so) next = std::min(next, time);
  };
  sooner(pull_remaining_ > 0, pull_expires_at_);
  sooner(pull_remaining_ == 0 && next_pull_at_ > Clock::now(), next_pull_at_);
  sooner(!open_.empty(), extend_at_);
  sooner(pending_redeliveries_.open(), check_at_);
  for (const PendingDeadLetter& pending : pending_dead_letters_) sooner(true, pending.not_before);
  return next;
}

}  // namespace twinbox::nats
