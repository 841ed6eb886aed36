#include "transport/kafka/dead_letters.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;

constexpr Duration report_limit = 30s;
/// Whatever has come may be sent on; the cluster decides.
constexpr std::size_t any_size = 900'000'000;

}  // namespace

DeadLetters::DeadLetters(const KafkaConnection& connection, const KafkaSourceOptions& options,
                         const Environment& environment, SourceRecord& record,
                         std::function<void(const Producer&)> made)
    : connection_(connection),
      options_(options),
      environment_(environment),
      record_(record),
      made_(std::move(made)) {}

void DeadLetters::add(std::uint64_t tag, const rd_kafka_message_t& message, std::string error) {
  letters_.push_back({tag, &message, std::move(error)});
}

void DeadLetters::drop(const std::set<std::uint64_t>& tags) {
  std::erase_if(letters_, [&](const Letter& letter) { return tags.contains(letter.tag); });
}

void DeadLetters::stop() {
  letters_.clear();
  producer_.reset();
}

std::optional<DeadLetters::Time> DeadLetters::next() const {
  std::optional<Time> soonest;
  for (const Letter& letter : letters_) {
    if (!letter.sent) soonest = std::min(soonest.value_or(Time::max()), letter.not_before);
  }
  return soonest;
}

std::vector<std::uint64_t> DeadLetters::step(Time now) {
  if (letters_.empty()) return {};
  try {
    if (!producer_) {
      producer_ = std::make_unique<Producer>(
          connection_, report_limit, any_size,
          [this](const rd_kafka_message_t& message) { report(message); });
      made_(*producer_);
    }
    for (Letter& letter : letters_) {
      if (!letter.sent && letter.not_before <= now) send(letter);
    }
    producer_->poll(0ms);
  } catch (const std::exception& error) {  // the next one may find a cluster
    if (producer_) producer_->give_up();
    producer_.reset();
    for (Letter& letter : letters_) {
      if (letter.not_before <= now) put_off(letter, error.what());
    }
  }
  return std::exchange(delivered_, {});
}

void DeadLetters::send(Letter& letter) {
  std::string error;
  const Record record = dead_record(*letter.message, options_, letter.error, letter.bare);
  void* const opaque = reinterpret_cast<void*>(static_cast<std::uintptr_t>(letter.tag));
  switch (producer_->produce(record, opaque, error)) {
    case Producer::Taken::yes: letter.sent = true; break;
    case Producer::Taken::full: break;
    case Producer::Taken::no: put_off(letter, error); break;
  }
}

void DeadLetters::report(const rd_kafka_message_t& message) {
  const std::uint64_t tag = reinterpret_cast<std::uintptr_t>(message._private);
  const auto found = std::ranges::find(letters_, tag, &Letter::tag);
  if (found == letters_.end()) return;  // its partition has gone to somebody else
  const Fate fate = fate_of(message.err, false);
  if (fate == Fate::written) {
    const std::string cut = cut_error(found->error);
    environment_.write(
        LogLevel::error, "dead_letter",
        {{"source", std::string_view{options_.group}}, {"error", std::string_view{cut}}});
    letters_.erase(found);
    delivered_.push_back(tag);
    record_.change([](SourceStatus& status) { ++status.dead; });
  } else if (fate == Fate::refused && !found->bare) {
    found->bare = true;
    found->sent = false;
  } else {
    put_off(*found, rd_kafka_err2str(message.err));
  }
}

/// Nothing is lost: it stays in its topic until its place can be reached.
void DeadLetters::put_off(Letter& letter, const std::string& why) {
  letter.sent = false;
  letter.not_before =
      std::chrono::steady_clock::now() + std::max<Duration>(options_.retry.delay, 100ms);
  const std::string topic = dead_topic(options_, rd_kafka_topic_name(letter.message->rkt));
  const std::string reason = cut_error("topic '" + topic + "': " + why);
  environment_.write(
      LogLevel::error, "dead_letter_failed",
      {{"source", std::string_view{options_.group}}, {"reason", std::string_view{reason}}});
  record_.change([&](SourceStatus& status) { status.error = "dead letters: " + reason; });
}

}  // namespace twinbox::kafka
