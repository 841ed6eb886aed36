#include "transport/nats/consumer.hpp"

#include <algorithm>
#include <limits>

#include "core/text.hpp"
#include "transport/nats/topology.hpp"

namespace twinbox::nats {
namespace {

using namespace std::chrono_literals;

/// A server may have forgotten a request.
constexpr auto request_limit = 10s;
constexpr auto answer_limit = 10s;

std::chrono::steady_clock::duration ack_wait_of(const jsConsumerInfo& info) {
  const std::int64_t nanoseconds = info.Config->AckWait;
  return nanoseconds > 0 ? std::chrono::nanoseconds{nanoseconds} : std::chrono::nanoseconds{30s};
}

/// Whoever asks for more than a consumer allows gets nothing. Zero: it allows anything.
template <class T>
T allowed(T wanted, std::int64_t limit) {
  return limit > 0 ? std::min(wanted, T{limit}) : wanted;
}

std::int64_t max_deliver_of(const NatsSourceOptions& options, const jsConsumerInfo& info) {
  const std::int64_t ours =
      options.max_deliver > 0 ? options.max_deliver : std::numeric_limits<std::int64_t>::max();
  return allowed(ours, info.Config->MaxDeliver);
}

/// What is unacknowledged, but for what we gave back ourselves: no order depends on that.
Overdue overdue_of(const jsConsumerInfo& info, const GivenBack& given_back) {
  const auto pending = static_cast<std::uint64_t>(info.NumAckPending);
  return {info.Delivered.Stream,
          pending - std::min<std::uint64_t>(pending, given_back.all().size())};
}

}  // namespace

void Post::receive(Letter letter) {
  const std::scoped_lock lock{mutex_};
  letters_.push_back(std::move(letter));
  some_.notify_all();
}

void Post::refused(const std::string& subject, const std::string& text) {
  constexpr std::size_t most = 100;  // whoever lacks a right may be told a thousand times
  const std::scoped_lock lock{mutex_};
  if (refusals_.size() < most) refusals_.push_back({subject, text});
  woken_ = true;
  some_.notify_all();
}

std::vector<Post::Refusal> Post::take_refusals() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(refusals_, {});
}

void Post::closed() {
  const std::scoped_lock lock{mutex_};
  closed_ = true;
  some_.notify_all();
}

void Post::wake() {
  const std::scoped_lock lock{mutex_};
  woken_ = true;
  some_.notify_all();
}

std::vector<Letter> Post::take(const std::stop_token& stop, Time limit) {
  std::unique_lock lock{mutex_};
  some_.wait_until(lock, stop, limit, [&] { return woken_ || closed_ || !letters_.empty(); });
  woken_ = false;
  return std::exchange(letters_, {});
}

bool Post::is_closed() const {
  const std::scoped_lock lock{mutex_};
  return closed_;
}

Consumer::Consumer(Connection& connection, std::shared_ptr<Post> post, const jsConsumerInfo& info,
                   const NatsSourceOptions& options, const AcceptCall& accept,
                   const Environment& environment, SourceRecord& record, GivenBack& given_back)
    : connection_(connection),
      post_(std::move(post)),
      options_(options),
      environment_(environment),
      record_(record),
      given_back_(given_back),
      ack_wait_(ack_wait_of(info)),
      max_deliver_(max_deliver_of(options, info)),
      request_size_(allowed<std::int64_t>(options.prefetch, info.Config->MaxRequestBatch)),
      request_time_(
          allowed<std::chrono::nanoseconds>(request_limit, info.Config->MaxRequestExpires)),
      overdue_(overdue_of(info, given_back)),
      keep_at_(begin_ + ack_wait_ / 3),
      accepting_(DeliveryDesk{accept, options.retry, name(), environment},
                 [mail = post_] { mail->wake(); }) {}

std::string Consumer::name() const { return options_.stream.name + "/" + options_.consumer; }

std::string Consumer::asking_place() const {
  return "$JS.API.CONSUMER.MSG.NEXT." + options_.stream.name + "." + options_.consumer;
}

void Consumer::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    hear_refusals();
    settle();
    bury();
    keep();
    look_for_overdue();
    ask();
    const bool closed = post_->is_closed();  // before what came is taken, or the last were missed
    for (Letter& letter : post_->take(stop, next_time())) receive(std::move(letter));
    if (closed) throw BrokerError(connection_.last_error());
  }
  accepting_.stop();
  settle();
  give_back_all();
}

/// A right that is missing is told once, not for every message that is acknowledged.
void Consumer::hear_refusals() {
  for (const Post::Refusal& one : post_->take_refusals()) {
    asking_refused_ = one.subject == asking_place();
    refusal_ = connection_.shown() + ": " + one.text;
    const bool answering = one.subject.starts_with("$JS.ACK.");  // each has a subject of its own
    if (!told_.insert(answering ? "$JS.ACK." : one.subject).second) continue;
    const std::string source = name();
    const std::string cut = cut_error(refusal_);
    environment_.write(LogLevel::warning, "broker_trouble",
                       {{"source", std::string_view{source}}, {"error", std::string_view{cut}}});
  }
}

/// Asks for as much as there is room for, once the last request is through.
void Consumer::ask() {
  const auto now = Clock::now();
  if ((asked_ > 0 && now < asked_until_) || now < ask_at_) return;
  auto room = std::int64_t{options_.prefetch} - static_cast<std::int64_t>(open_.size());
  // After each ack_wait what is overdue comes first, and may be what everything here waits for.
  if (overdue_.open()) {
    room += static_cast<std::int64_t>(overdue_.count()) * ((now - begin_) / ack_wait_);
  }
  if (room < std::max(1, options_.prefetch / 4)) return;
  asked_ = std::min(room, request_size_);
  asked_until_ = now + request_time_ + 2s;
  const std::string request = R"({"batch":)" + std::to_string(asked_) + R"(,"expires":)" +
                              std::to_string(std::chrono::nanoseconds{request_time_}.count()) + "}";
  connection_.check(
      connection_.publish(asking_place(),
                          connection_.inbox() + "pull." + std::to_string(++requests_), request),
      "asking for deliveries");
}

void Consumer::receive(Letter letter) {
  if (const auto origin = origin_of(*letter)) return deliver(std::move(letter), *origin);
  const std::string_view subject = natsMsg_GetSubject(letter.get());
  if (subject.starts_with(connection_.inbox() + "dead.")) return read_burial(*letter);
  // Answers to earlier requests say nothing about the last one.
  if (subject == connection_.inbox() + "pull." + std::to_string(requests_)) read_status(*letter);
}

void Consumer::read_status(natsMsg& message) {
  const Headers headers = read_headers(message);
  const std::string& status = headers.status;
  const std::string& text = headers.description;
  if (status == "100") return;
  asked_ = 0;
  if (status == "404" || status == "408") return;
  const bool passes = status == "409" && !text.starts_with("Consumer ");
  if (!passes) {
    throw BrokerError(connection_.shown() + ": consumer " + name() + " gives nothing: " +
                      (status == "503" ? "it has been deleted" : status + " " + text));
  }
  ask_at_ = Clock::now() + 500ms;  // a new leader, a limit of the server
}

Delivery Consumer::read(natsMsg& message, const Origin& origin) const {
  if (options_.max_deliver > 0 &&
      origin.delivered > static_cast<std::uint64_t>(options_.max_deliver)) {
    return {origin.sequence,
            {},
            "delivered " + std::to_string(origin.delivered) +
                " times without being accepted; max_deliver allows " +
                std::to_string(options_.max_deliver)};
  }
  try {
    Delivery delivery{origin.sequence, read_arrival(message, origin, options_)};
    delivery.failures = given_back_.failures(origin.sequence);
    delivery.returnable = !delivery.arrival->extras.partition_key &&
                          origin.delivered < static_cast<std::uint64_t>(max_deliver_);
    return delivery;
  } catch (const std::invalid_argument& error) {
    return {origin.sequence, {}, error.what()};
  }
}

void Consumer::deliver(Letter letter, const Origin& origin) {
  if (asked_ > 0) --asked_;
  if (std::exchange(asking_refused_, false)) refusal_.clear();
  const std::uint64_t sequence = origin.sequence;
  const auto known = open_.find(sequence);
  if (known != open_.end()) {  // we were too slow to say that we still have it
    known->second = {std::move(letter), origin};
    return;
  }
  Delivery delivery = read(*letter, origin);
  open_.emplace(sequence, Open{std::move(letter), origin});
  const bool waits =
      overdue_.open() && delivery.arrival && delivery.arrival->extras.partition_key.has_value();
  if (given_back_.failures(sequence) == 0) overdue_.came(sequence);
  if (waits) {
    held_.emplace(sequence, std::move(delivery));
  } else {
    accepting_.add(std::move(delivery));
  }
  if (!overdue_.open()) release_held();
}

void Consumer::release_held() {
  for (auto& [sequence, delivery] : std::exchange(held_, {})) accepting_.add(std::move(delivery));
}

/// Others may have what was unacknowledged when we began: the server knows when it is settled.
void Consumer::look_for_overdue() {
  const auto now = Clock::now();
  if (!overdue_.open() || now < look_at_) return;
  look_at_ = now + 250ms;
  const auto info = find_consumer(connection_, options_.stream.name, options_.consumer);
  if (info) {
    given_back_.told(info->AckFloor.Stream, info->Delivered.Stream);
    const auto elsewhere = std::ranges::count_if(
        given_back_.all(), [&](const auto& one) { return !open_.contains(one.first); });
    overdue_.told(info->AckFloor.Stream, static_cast<std::uint64_t>(info->NumAckPending),
                  open_.size() + static_cast<std::uint64_t>(elsewhere));
  }
  if (overdue_.open() && now > begin_ + 3 * ack_wait_ + 5s) {
    overdue_.end();
    const std::string source = name();
    environment_.write(LogLevel::warning, "order_unsure", {{"source", std::string_view{source}}});
  }
  if (!overdue_.open()) release_held();
}

void Consumer::settle() {
  std::uint64_t accepted = 0, duplicates = 0;
  for (Settled& one : accepting_.take()) {
    if (one.accepted) {
      answer(one.tag, "+ACK");
      forget(one.tag);
      (one.accepted->duplicate() ? duplicates : accepted) += 1;
    } else if (one.again_after) {
      give_back(one.tag, *one.again_after);
    } else {
      graves_.push_back({one.tag, cut_error(one.error), Clock::now()});
    }
  }
  const auto failures = accepting_.take_failures();
  record_.change([&](SourceStatus& status) {
    status.accepted += accepted;
    status.duplicates += duplicates;
    status.retried += failures.first;
    status.error = failures.second.empty() ? refusal_ : failures.second;
  });
}

/// The server brings it again after the delay, to whoever asks then; its place here is free.
void Consumer::give_back(std::uint64_t sequence, Duration delay) {
  const auto found = open_.find(sequence);
  if (found == open_.end()) return;
  given_back_.add(sequence, natsMsg_GetReply(found->second.letter.get()));
  answer(sequence,
         R"(-NAK {"delay":)" + std::to_string(std::chrono::nanoseconds{delay}.count()) + "}");
  open_.erase(found);
}

/// It does not come again.
void Consumer::forget(std::uint64_t sequence) {
  open_.erase(sequence);
  given_back_.settled(sequence);
}

void Consumer::answer(std::uint64_t sequence, const std::string& word) {
  const auto found = open_.find(sequence);
  if (found == open_.end()) return;
  connection_.check(connection_.publish(natsMsg_GetReply(found->second.letter.get()), "", word),
                    "acknowledging");
}

/// Tells the server that we still have what we have.
void Consumer::keep() {
  const auto now = Clock::now();
  if (now < keep_at_) return;
  keep_at_ = now + ack_wait_ / 3;
  for (const auto& [sequence, open] : open_) answer(sequence, "+WPI");
}

/// Sends on what goes to the dead letters; its delivery ends when a stream has taken it there.
void Consumer::bury() {
  const auto now = Clock::now();
  for (Grave& grave : graves_) {
    if (grave.not_before > now) continue;
    grave.number = ++burials_;
    grave.not_before = now + answer_limit;
    const Open& open = open_.at(grave.sequence);
    const std::string reply = connection_.inbox() + "dead." + std::to_string(grave.number);
    const Letter letter =
        grave.bare ? bare_dead_letter(*open.letter, options_, reply)
                   : dead_letter(*open.letter, open.origin, options_, grave.error, reply);
    const natsStatus status = connection_.publish(*letter);
    if (status == NATS_MAX_PAYLOAD) {
      if (!std::exchange(grave.bare, true)) {
        grave.not_before = now;
      } else {  // the server took it once, when it took larger ones
        put_off(grave, "larger than max_payload of the server");
      }
      continue;
    }
    connection_.check(status, "a dead letter");
  }
}

void Consumer::read_burial(natsMsg& message) {
  const std::string number = std::string{natsMsg_GetSubject(&message)}.substr(
      connection_.inbox().size() + std::string{"dead."}.size());
  const auto grave = std::ranges::find_if(
      graves_, [&](const Grave& one) { return std::to_string(one.number) == number; });
  if (grave == graves_.end()) return;
  const std::string source = name();
  const Answer said = read_answer(message);
  if (said.kind != Answer::Kind::stored) {
    const bool nobody = said.kind == Answer::Kind::no_stream;
    return put_off(*grave, nobody ? "no stream takes its subject" : std::string_view{said.text});
  }
  environment_.write(
      LogLevel::error, "dead_letter",
      {{"source", std::string_view{source}}, {"error", std::string_view{grave->error}}});
  answer(grave->sequence, "+TERM");
  forget(grave->sequence);
  graves_.erase(grave);
  record_.change([](SourceStatus& status) { ++status.dead; });
}

/// Nothing is lost: it stays with its stream until its place can be reached.
void Consumer::put_off(Grave& grave, std::string_view reason) const {
  grave.not_before = Clock::now() + std::max<Duration>(options_.retry.delay, 100ms);
  const std::string source = name();
  environment_.write(LogLevel::error, "dead_letter_failed",
                     {{"source", std::string_view{source}}, {"reason", reason}});
}

/// Whoever is next gets it at once, instead of after ack_wait or its delay.
void Consumer::give_back_all() {
  connection_.drain(2s);
  for (Letter& letter : post_->take({}, Clock::now())) {
    if (const auto origin = origin_of(*letter)) {
      open_.try_emplace(origin->sequence, Open{std::move(letter), *origin});
    }
  }
  // Asked about the consumer, a server forgets our last request; one that still had it (2.9) would
  // take what is given back for delivered.
  if (!open_.empty() || !given_back_.all().empty()) {
    const auto info = find_consumer(connection_, options_.stream.name, options_.consumer);
    if (info) given_back_.told(info->AckFloor.Stream, info->Delivered.Stream);
  }
  for (const auto& [sequence, open] : open_) answer(sequence, "-NAK");
  for (const auto& [sequence, one] : given_back_.all()) {
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
  sooner(asked_ > 0, asked_until_);
  sooner(asked_ == 0 && ask_at_ > Clock::now(), ask_at_);
  sooner(!open_.empty(), keep_at_);
  sooner(overdue_.open(), look_at_);
  for (const Grave& grave : graves_) sooner(true, grave.not_before);
  return next;
}

}  // namespace twinbox::nats
