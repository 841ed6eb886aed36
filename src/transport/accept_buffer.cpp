#include "transport/accept_buffer.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "twinbox/database.hpp"
#include "twinbox/error.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {
namespace {

/// A store's failure is the same for every message: only an error about data may concern one of
/// them.
bool is_store_unavailable(const DatabaseError& error) noexcept {
  return error.kind() != DatabaseError::Kind::invalid_request;
}

/// Empty: it has none.
std::string_view key_of(const BrokerDelivery& delivery) noexcept {
  if (!delivery.arrival || !delivery.arrival->extras.partition_key) return {};
  return delivery.arrival->extras.partition_key->view();
}

}  // namespace

AcceptBuffer::AcceptBuffer(AcceptCall accept, SourceRetry retry, std::string name,
                           Environment environment)
    : accept_(std::move(accept)),
      retry_(retry),
      name_(std::move(name)),
      environment_(std::move(environment)) {}

void AcceptBuffer::add(BrokerDelivery delivery) { waiting_.push_back({std::move(delivery)}); }

void AcceptBuffer::drop(const std::set<std::uint64_t>& tags) {
  std::erase_if(waiting_, [&](const Waiting& one) { return tags.contains(one.delivery.tag); });
}

Duration AcceptBuffer::delay(int failures) const {
  const auto whole = [](Duration time) {
    return std::chrono::ceil<std::chrono::milliseconds>(time);
  };
  const RetryPolicy doubling{.first_delay = whole(retry_.delay),
                             .max_delay = whole(std::max(retry_.max_delay, retry_.delay))};
  return doubling.delay(failures, environment_);
}

/// In order, without those whose partition key has an earlier one that cannot be accepted yet.
std::vector<AcceptBuffer::Waiting> AcceptBuffer::take_ready(Time now) {
  std::vector<Waiting> ready;
  std::deque<Waiting> rest;
  std::set<std::string, std::less<>> blocked_keys;
  for (Waiting& one : waiting_) {
    const std::string key{key_of(one.delivery)};
    if (one.not_before <= now && !blocked_keys.contains(key)) {
      ready.push_back(std::move(one));
      continue;
    }
    if (!key.empty()) blocked_keys.insert(key);
    rest.push_back(std::move(one));
  }
  waiting_ = std::move(rest);
  return ready;
}

std::vector<AcceptResult> AcceptBuffer::step(Time now) {
  if (now < store_retry_at_) return {};
  std::vector<Waiting> ready = take_ready(now);
  if (ready.empty()) return {};
  if (auto all = accept_all(ready, now)) {
    clear_error_if_recovered(*all, now);
    return std::move(*all);
  }
  // One of them is refused, or the store is unavailable: one by one, so that none fails for
  // another.
  std::vector<AcceptResult> settled;
  std::vector<Waiting> back;
  std::set<std::string, std::less<>> blocked_keys;
  for (Waiting& one : ready) {
    const std::string key{key_of(one.delivery)};
    if (now >= store_retry_at_ && !blocked_keys.contains(key)) {
      if (auto answer = accept_one(one, now)) {
        settled.push_back(std::move(*answer));
        continue;
      }
    }
    if (!key.empty()) blocked_keys.insert(key);
    back.push_back(std::move(one));
  }
  // Before later ones: they must keep their position in their partition key.
  waiting_.insert(waiting_.begin(), std::make_move_iterator(back.begin()),
                  std::make_move_iterator(back.end()));
  std::ranges::stable_sort(waiting_, {}, [](const Waiting& one) { return one.delivery.tag; });
  clear_error_if_recovered(settled, now);
  return settled;
}

std::optional<std::vector<AcceptResult>> AcceptBuffer::accept_all(std::vector<Waiting>& ready,
                                                                  Time now) {
  std::vector<Arrival> arrivals;
  for (const Waiting& one : ready) {
    if (!one.delivery.arrival || one.delivery.failures > 0) return {};
    arrivals.push_back(*one.delivery.arrival);
  }
  try {
    const std::vector<Accepted> answers = accept_(arrivals);
    store_failures_ = 0;
    std::vector<AcceptResult> settled;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      settled.push_back({ready[i].delivery.tag, answers.at(i)});
    }
    return settled;
  } catch (const DatabaseError& error) {
    if (is_store_unavailable(error)) on_store_unavailable(error.what(), now);
  } catch (const std::exception&) {  // accept_one reports which, and why
  }
  return {};
}

std::optional<AcceptResult> AcceptBuffer::accept_one(Waiting& one, Time now) {
  if (!one.delivery.arrival) return AcceptResult{one.delivery.tag, {}, one.delivery.error};
  try {
    const std::vector<Accepted> answers = accept_({&*one.delivery.arrival, 1});
    store_failures_ = 0;
    return AcceptResult{one.delivery.tag, answers.at(0)};
  } catch (const DatabaseError& error) {
    if (!is_store_unavailable(error)) return failed(one, error.what(), now);
    on_store_unavailable(error.what(), now);
  } catch (const SchemaError& error) {
    on_store_unavailable(error.what(), now);
  } catch (const RequestError& error) {
    return AcceptResult{one.delivery.tag, {}, truncate_error(error.what())};
  } catch (const std::exception& error) {
    return failed(one, std::string{text_of(error)}, now);
  }
  return {};
}

std::optional<AcceptResult> AcceptBuffer::failed(Waiting& one, const std::string& error, Time now) {
  const std::string cut = truncate_error(error);
  const Arrival& arrival = *one.delivery.arrival;
  const int failures = ++one.delivery.failures;
  last_error_ = cut;
  environment_.write(LogLevel::warning, "accept_failed",
                     {{"source", std::string_view{name_}},
                      {"topic", arrival.topic.view()},
                      {"id", arrival.id.view()},
                      {"failures", std::int64_t{failures}},
                      {"error", std::string_view{cut}}});
  if (failures > retry_.max_retries) return AcceptResult{one.delivery.tag, {}, cut};
  ++retried_;
  const Duration rest = delay(failures);
  one.not_before = now + rest;
  if (!one.delivery.can_redeliver) return {};
  redelivery_until_ = std::max(redelivery_until_, one.not_before);
  return AcceptResult{one.delivery.tag, {}, cut, rest};
}

/// A failure is over when everything succeeds and nothing waits for its next attempt, here or with
/// the broker.
void AcceptBuffer::clear_error_if_recovered(const std::vector<AcceptResult>& settled, Time now) {
  const auto accepted = [](const AcceptResult& one) { return one.accepted.has_value(); };
  const auto failed = [](const Waiting& one) { return one.delivery.failures > 0; };
  if (store_failures_ == 0 && now >= redelivery_until_ && !settled.empty() &&
      std::ranges::all_of(settled, accepted) && std::ranges::none_of(waiting_, failed)) {
    last_error_.clear();
  }
}

void AcceptBuffer::on_store_unavailable(const std::string& error, Time now) {
  // Each attempt is a log line and a connection: pause in between, whatever the messages' delay is.
  store_retry_at_ =
      now + std::max<Duration>(delay(++store_failures_), std::chrono::milliseconds{100});
  if (StopScope::token().stop_requested()) return;  // not a recovery: a stop has ended the call
  last_error_ = truncate_error(error);
  environment_.write(
      LogLevel::warning, "store_unavailable",
      {{"source", std::string_view{name_}}, {"error", std::string_view{last_error_}}});
}

std::optional<AcceptBuffer::Time> AcceptBuffer::next() const {
  if (waiting_.empty()) return {};
  Time soonest = Time::max();
  std::set<std::string_view> blocked_keys;
  for (const Waiting& one : waiting_) {
    const std::string_view key = key_of(one.delivery);
    if (!key.empty() && !blocked_keys.insert(key).second) continue;  // behind another one
    soonest = std::min(soonest, one.not_before);
  }
  return std::max(soonest, store_retry_at_);
}

}  // namespace twinbox
