#include "transport/kafka/dead_letter_publisher.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;

constexpr Duration report_limit = 30s;
/// All fetched records may be sent on; the cluster decides.
constexpr std::size_t any_size = 900'000'000;

}  // namespace

DeadLetterPublisher::DeadLetterPublisher(const KafkaConnection& connection,
                                         const KafkaSourceOptions& options,
                                         const Environment& environment, SharedSourceStatus& status,
                                         std::function<void(const Producer&)> on_producer)
    : connection_(connection),
      options_(options),
      environment_(environment),
      status_(status),
      on_producer_(std::move(on_producer)) {}

void DeadLetterPublisher::add(std::uint64_t tag, const rd_kafka_message_t& message,
                              std::string error) {
  pending_.push_back({tag, &message, std::move(error)});
}

void DeadLetterPublisher::drop(const std::set<std::uint64_t>& tags) {
  std::erase_if(pending_,
                [&](const PendingDeadLetter& pending) { return tags.contains(pending.tag); });
}

void DeadLetterPublisher::stop() {
  pending_.clear();
  producer_.reset();
}

std::optional<DeadLetterPublisher::Time> DeadLetterPublisher::next() const {
  std::optional<Time> soonest;
  for (const PendingDeadLetter& pending : pending_) {
    if (!pending.sent) soonest = std::min(soonest.value_or(Time::max()), pending.not_before);
  }
  return soonest;
}

std::vector<std::uint64_t> DeadLetterPublisher::step(Time now) {
  if (pending_.empty()) return {};
  try {
    if (!producer_) {
      producer_ = std::make_unique<Producer>(
          connection_, report_limit, any_size,
          [this](const rd_kafka_message_t& message) { report(message); });
      on_producer_(*producer_);
    }
    for (PendingDeadLetter& pending : pending_) {
      if (!pending.sent && pending.not_before <= now) send(pending);
    }
    producer_->poll(0ms);
  } catch (const std::exception& error) {  // the next one may reach a cluster
    if (producer_) producer_->purge();
    producer_.reset();
    for (PendingDeadLetter& pending : pending_) {
      if (pending.not_before <= now) retry_later(pending, error.what());
    }
  }
  return std::exchange(delivered_, {});
}

void DeadLetterPublisher::send(PendingDeadLetter& pending) {
  std::string error;
  const Record record =
      dead_letter_record(*pending.message, options_, pending.error, pending.without_reason);
  void* const opaque = reinterpret_cast<void*>(static_cast<std::uintptr_t>(pending.tag));
  switch (producer_->produce(record, opaque, error)) {
    case Producer::ProduceResult::queued: pending.sent = true; break;
    case Producer::ProduceResult::queue_full: break;
    case Producer::ProduceResult::rejected: retry_later(pending, error); break;
  }
}

void DeadLetterPublisher::report(const rd_kafka_message_t& message) {
  const std::uint64_t tag = reinterpret_cast<std::uintptr_t>(message._private);
  const auto found = std::ranges::find(pending_, tag, &PendingDeadLetter::tag);
  if (found == pending_.end()) return;  // its partition belongs to another consumer
  const ReportResult result = report_result_of(message.err, false);
  if (result == ReportResult::written) {
    const std::string cut = truncate_error(found->error);
    environment_.write(
        LogLevel::error, "dead_letter",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{cut}}});
    pending_.erase(found);
    delivered_.push_back(tag);
    status_.update([](SourceStatus& status) { ++status.dead; });
  } else if (result == ReportResult::refused && !found->without_reason) {
    found->without_reason = true;
    found->sent = false;
  } else {
    retry_later(*found, rd_kafka_err2str(message.err));
  }
}

/// Nothing is lost: it stays in its topic until its destination can be reached.
void DeadLetterPublisher::retry_later(PendingDeadLetter& pending, const std::string& why) {
  pending.sent = false;
  pending.not_before =
      std::chrono::steady_clock::now() + std::max<Duration>(options_.retry.delay, 100ms);
  const std::string topic =
      dead_letter_topic_of(options_, rd_kafka_topic_name(pending.message->rkt));
  const std::string reason = truncate_error("topic '" + topic + "': " + why);
  environment_.write(
      LogLevel::error, "dead_letter_failed",
      {{"source", std::string_view{options_.group}}, {"reason", std::string_view{reason}}});
  status_.update([&](SourceStatus& status) { status.error = "dead letters: " + reason; });
}

}  // namespace twinbox::kafka
