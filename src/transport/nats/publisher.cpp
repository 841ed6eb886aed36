#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>

#include "core/text.hpp"
#include "transport/nats/probe.hpp"
#include "transport/nats/topology.hpp"
#include "transport/nats/wire.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {
namespace {

using nats::Connection;
using nats::Outgoing;
using nats::PublishAck;
using Clock = std::chrono::steady_clock;

/// Messages in flight: enough to keep server and network busy.
constexpr std::size_t max_in_flight = 2000;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("nats sink: " + why);
}

template <class Options>
Options checked(Options options) {
  try {
    nats::check(options);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return options;
}

/// Messages that are no longer needed. The library frees them on a thread of its own: freeing many
/// at once, not one between two sends, makes a relay 4 % faster.
class DeferredFree {
 public:
  void add(nats::MessagePtr nats_message) {
    bytes_ += natsMsg_GetDataLength(nats_message.get());
    messages_.push_back(std::move(nats_message));
    if (messages_.size() >= max_messages || bytes_ >= max_deferred_bytes) clear();
  }
  void clear() {
    messages_.clear();
    bytes_ = 0;
  }

 private:
  static constexpr std::size_t max_messages = 128;
  static constexpr int max_deferred_bytes = 1 << 20;

  std::vector<nats::MessagePtr> messages_;
  int bytes_ = 0;
};

/// The messages of one call.
struct Batch {
  std::span<const Message> messages;
  std::vector<std::optional<Outcome>> outcomes{messages.size()};
  std::size_t open = 0;  ///< in flight
};

/// The messages in flight on one connection, and the answers of streams. Thread-safe; only the
/// library's thread of the connection calls receive().
class InFlightMessages : public nats::Listener {
 public:
  using Deadline = Clock::time_point;

  explicit InFlightMessages(const NatsSinkOptions& options) : options_(options) {
    for (std::size_t slot = max_in_flight; slot > 0; --slot) free_.push_back(slot - 1);
  }

  void receive(nats::MessagePtr nats_message) override {
    const std::string_view subject = natsMsg_GetSubject(nats_message.get());
    const std::string_view digits = subject.substr(subject.rfind('.') + 1);
    std::uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const PublishAck answer = nats::read_publish_ack(*nats_message);
    {
      const std::scoped_lock lock{mutex_};
      if (Sent* one = find(number)) end(*one, outcome_of(answer, one->batch->messages[one->index]));
    }
    answers_.add(std::move(nats_message));
  }

  void refused(const std::string& subject, const std::string& text) override {
    const std::scoped_lock lock{mutex_};
    for (Sent& one : sent_) {
      if (one.batch == nullptr) continue;
      if (nats::subject_of(one.batch->messages[one.index], options_) != subject) continue;
      end(one, Outcome::retry("subject '" + subject + "' was refused: " + text));
    }
  }

  void closed() override {
    const std::scoped_lock lock{mutex_};
    closed_ = true;
    for (Sent& one : sent_) {
      if (one.batch != nullptr) end(one, Outcome::retry("the connection was lost"));
    }
    changed_.notify_all();
  }

  [[nodiscard]] bool is_closed() const {
    const std::scoped_lock lock{mutex_};
    return closed_;
  }

  /// A number for the next message, as soon as there is room; empty: there was none in time, or the
  /// connection is lost.
  std::optional<std::uint64_t> begin(Batch& batch, std::size_t index, const std::stop_token& stop,
                                     Deadline deadline) {
    std::unique_lock lock{mutex_};
    const auto ready = [&] { return closed_ || !free_.empty(); };
    if (!ready() && !changed_.wait_until(lock, stop, deadline, ready)) return {};
    if (closed_) return {};
    ++batch.open;
    const std::size_t slot = free_.back();
    free_.pop_back();
    sent_[slot] = {++rounds_ * max_in_flight + slot, &batch, index};
    return sent_[slot].number;
  }
  /// It was not sent, with the reason.
  void fail(std::uint64_t number, Outcome outcome) {
    const std::scoped_lock lock{mutex_};
    if (Sent* one = find(number)) end(*one, std::move(outcome));
  }
  void finish(const Batch& batch, const std::stop_token& stop, Deadline deadline) {
    std::unique_lock lock{mutex_};
    changed_.wait_until(lock, stop, deadline, [&] { return batch.open == 0; });
  }
  /// Ignores later answers.
  void forget(const Batch& batch) {
    const std::scoped_lock lock{mutex_};
    if (batch.open == 0) return;
    for (Sent& one : sent_) {
      if (one.batch == &batch) clear(one);
    }
    changed_.notify_all();
  }

 private:
  struct Sent {
    std::uint64_t number = 0;  ///< its slot, and how many were sent before it
    Batch* batch = nullptr;    ///< null: the slot is free
    std::size_t index = 0;
  };

  [[nodiscard]] Outcome outcome_of(const PublishAck& answer, const Message& message) const {
    switch (answer.kind) {
      case PublishAck::Kind::stored: return Outcome::done();
      case PublishAck::Kind::no_stream:
        return Outcome::retry("no stream takes subject '" + nats::subject_of(message, options_) +
                              "'; make one that does");
      case PublishAck::Kind::too_large:
        return Outcome::dead("the stream refuses it: " + answer.text);
      case PublishAck::Kind::refused: break;
    }
    return Outcome::retry("subject '" + nats::subject_of(message, options_) +
                          "' was refused: " + answer.text);
  }

  /// Null: its caller has given up.
  Sent* find(std::uint64_t number) {
    Sent& one = sent_[number % max_in_flight];
    return one.batch != nullptr && one.number == number ? &one : nullptr;
  }

  void end(Sent& one, Outcome outcome) {
    Batch& batch = *one.batch;
    batch.outcomes[one.index] = std::move(outcome);
    const bool was_full = free_.empty();
    clear(one);
    if (--batch.open == 0 || was_full) changed_.notify_all();
  }

  void clear(Sent& one) {
    one.batch = nullptr;
    free_.push_back(one.number % max_in_flight);
  }

  const NatsSinkOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Sent> sent_{max_in_flight};
  std::vector<std::size_t> free_;  ///< slots in `sent_`
  std::uint64_t rounds_ = 0;
  bool closed_ = false;
  DeferredFree answers_;  ///< of the receiving thread: without the mutex
};

/// A connection and its messages in flight.
struct OpenConnection {
  std::shared_ptr<InFlightMessages> in_flight;
  Connection connection;

  OpenConnection(const NatsConnection& options, const NatsSinkOptions& sink)
      : in_flight(std::make_shared<InFlightMessages>(sink)), connection(options, in_flight) {}
};

}  // namespace

class NatsPublisher::Impl {
 public:
  Impl(NatsConnection connection, NatsSinkOptions options, Environment environment)
      : connection_(checked(std::move(connection))),
        options_(checked(std::move(options))),
        environment_(std::move(environment)),
        display_name_(nats::Address::parse(connection_.url).display_name()) {}

  std::vector<Outcome> publish(std::span<const Message> messages, const std::stop_token& stop) {
    Batch batch{messages};
    if (const std::shared_ptr<OpenConnection> open_connection = current_connection()) {
      send(*open_connection, batch, stop);
      if (open_connection->in_flight->is_closed())
        forget(open_connection, open_connection->connection.last_error());
      // A blocked connection must not delay the next call.
      if (batch.open > 0 && !stop.stop_requested()) forget(open_connection, display_name_ + late);
    } else {
      for (std::size_t i = 0; i < messages.size(); ++i) {
        if (outgoing(batch, i)) postpone(batch, i);
      }
    }
    std::vector<Outcome> outcomes;
    outcomes.reserve(batch.outcomes.size());
    for (auto& outcome : batch.outcomes) {
      outcomes.push_back(outcome ? std::move(*outcome) : Outcome::retry(display_name_ + late));
    }
    return outcomes;
  }

 private:
  static constexpr const char* late = ": not acknowledged in time";

  /// Sends one while the next is prepared, and waits for the answers.
  void send(OpenConnection& open_connection, Batch& batch, const std::stop_token& stop) {
    struct ScopeGuard {
      InFlightMessages& in_flight;
      Batch& batch;
      ~ScopeGuard() { in_flight.forget(batch); }
    } const guard{*open_connection.in_flight, batch};
    const auto deadline = Clock::now() + std::chrono::ceil<Clock::duration>(options_.timeout);
    DeferredFree sent;
    for (std::size_t i = 0; i < batch.messages.size(); ++i) {
      const std::optional<Outgoing> message = outgoing(batch, i);
      if (!message) continue;
      if (const auto number = open_connection.in_flight->begin(batch, i, stop, deadline)) {
        sent.add(send_one(open_connection, *message, *number));
      } else if (open_connection.in_flight->is_closed()) {
        postpone(batch, i);
      }
    }
    sent.clear();  // the answers may take long
    open_connection.in_flight->finish(batch, stop, deadline);
  }

  /// Empty: it can never be sent.
  std::optional<Outgoing> outgoing(Batch& batch, std::size_t index) const {
    try {
      return nats::outgoing_of(batch.messages[index], options_);
    } catch (const std::invalid_argument& error) {
      batch.outcomes[index] = Outcome::malformed(error.what());
      return {};
    }
  }

  /// An unsent message counts no attempt.
  static void postpone(Batch& batch, std::size_t index) {
    batch.outcomes[index] = Outcome::postpone(batch.messages[index].lease_until);
  }

  nats::MessagePtr send_one(OpenConnection& open_connection, const Outgoing& message,
                            std::uint64_t number) {
    nats::MessagePtr nats_message = nats::to_nats_message(
        message, options_.stream.name, open_connection.connection.inbox() + std::to_string(number));
    const natsStatus status = open_connection.connection.publish(*nats_message);
    if (status == NATS_OK) return nats_message;
    const std::string why = display_name_ + ": " + natsStatus_GetText(status);
    open_connection.in_flight->fail(
        number, status == NATS_MAX_PAYLOAD
                    ? Outcome::dead(why + ": larger than max_payload of the server")
                    : Outcome::retry(why));
    return nats_message;
  }

  /// Connects at the first message and stays connected; empty: the server is unreachable, or was a
  /// moment ago.
  std::shared_ptr<OpenConnection> current_connection() {
    const std::scoped_lock lock{mutex_};
    if (open_ && open_->in_flight->is_closed()) lost(open_->connection.last_error());
    if (open_) return open_;
    if (Clock::now() < not_before_) return {};
    try {
      auto open_connection = std::make_shared<OpenConnection>(connection_, options_);
      nats::prepare(open_connection->connection, options_);
      environment_.write(LogLevel::info, "broker_connected",
                         {{"broker", std::string_view{display_name_}}});
      warn_of_sync();
      failures_ = 0;
      open_ = std::move(open_connection);
    } catch (const BrokerError& error) {
      lost(error.what());
      not_before_ = Clock::now() +
                    reconnect_delay(++failures_, connection_.max_reconnect_delay, environment_);
    }
    return open_;
  }

  /// Once: a server that acknowledges before the sync to disk may lose it in a power failure.
  void warn_of_sync() {
    if (warned_) return;
    warned_ = true;
    const nats::SyncPolicy sync = nats::read_sync_policy(connection_);
    if (sync.state == nats::SyncPolicy::State::sometimes) {
      environment_.write(
          LogLevel::warning, "broker_unsynced",
          {{"broker", std::string_view{display_name_}}, {"reason", std::string_view{sync.text}}});
    }
  }

  void forget(const std::shared_ptr<OpenConnection>& open_connection, const std::string& why) {
    const std::scoped_lock lock{mutex_};
    if (open_ == open_connection) lost(why);
  }

  void lost(const std::string& error) {
    const std::string cut = truncate_error(error);
    environment_.write(
        LogLevel::warning, "broker_lost",
        {{"broker", std::string_view{display_name_}}, {"error", std::string_view{cut}}});
    open_.reset();
  }

  const NatsConnection connection_;
  const NatsSinkOptions options_;
  const Environment environment_;
  const std::string display_name_;
  std::mutex mutex_;
  std::shared_ptr<OpenConnection> open_;
  Clock::time_point not_before_ = {};
  int failures_ = 0;
  bool warned_ = false;
};

NatsPublisher::NatsPublisher(NatsConnection connection, NatsSinkOptions options,
                             Environment environment)
    : impl_(std::make_unique<Impl>(std::move(connection), std::move(options),
                                   std::move(environment))) {}

NatsPublisher::~NatsPublisher() = default;

std::vector<Outcome> NatsPublisher::publish(std::span<const Message> messages,
                                            std::stop_token stop) {
  return impl_->publish(messages, stop);
}

void NatsPublisher::send(const CloudEvent& event) {
  const Message message = direct_message(event);
  const Outcome outcome = impl_->publish({&message, 1}, {}).at(0);
  if (outcome.kind() == Outcome::Kind::done) return;
  throw BrokerError(outcome.reason().empty() ? "the server cannot be reached; the log says why"
                                             : outcome.reason());
}

BatchHandler nats_sink(std::shared_ptr<NatsPublisher> publisher) {
  if (!publisher) throw std::invalid_argument("nats sink: needs a publisher");
  return
      [publisher = std::move(publisher)](std::span<const Message> messages, std::stop_token stop) {
        return publisher->publish(messages, std::move(stop));
      };
}

}  // namespace twinbox
