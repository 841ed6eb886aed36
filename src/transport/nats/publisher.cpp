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

using nats::Answer;
using nats::Connection;
using nats::Outgoing;
using Clock = std::chrono::steady_clock;

/// Messages on their way: enough to keep server and network busy.
constexpr std::size_t window = 2000;

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

/// Letters that are no longer needed. The library frees them on a thread of its own: to hand over
/// many at once, not one between two that are sent, makes a relay 4 % faster.
class Pile {
 public:
  void add(nats::Letter letter) {
    bytes_ += natsMsg_GetDataLength(letter.get());
    letters_.push_back(std::move(letter));
    if (letters_.size() >= most_letters || bytes_ >= most_bytes) clear();
  }
  void clear() {
    letters_.clear();
    bytes_ = 0;
  }

 private:
  static constexpr std::size_t most_letters = 128;
  static constexpr int most_bytes = 1 << 20;

  std::vector<nats::Letter> letters_;
  int bytes_ = 0;
};

/// The messages of one call.
struct Job {
  std::span<const Message> messages;
  std::vector<std::optional<Outcome>> outcomes{messages.size()};
  std::size_t open = 0;  ///< on their way
};

/// What is on its way over one connection, and what streams answer. Thread-safe; only the library's
/// thread of the connection calls receive().
class Flight : public nats::Listener {
 public:
  using Deadline = Clock::time_point;

  explicit Flight(const NatsSinkOptions& options) : options_(options) {
    for (std::size_t place = window; place > 0; --place) free_.push_back(place - 1);
  }

  void receive(nats::Letter letter) override {
    const std::string_view subject = natsMsg_GetSubject(letter.get());
    const std::string_view digits = subject.substr(subject.rfind('.') + 1);
    std::uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const Answer answer = nats::read_answer(*letter);
    {
      const std::scoped_lock lock{mutex_};
      if (Sent* one = find(number)) end(*one, outcome_of(answer, one->job->messages[one->index]));
    }
    answers_.add(std::move(letter));
  }

  void refused(const std::string& subject, const std::string& text) override {
    const std::scoped_lock lock{mutex_};
    for (Sent& one : sent_) {
      if (one.job == nullptr) continue;
      if (nats::subject_of(one.job->messages[one.index], options_) != subject) continue;
      end(one, Outcome::retry("subject '" + subject + "' was refused: " + text));
    }
  }

  void closed() override {
    const std::scoped_lock lock{mutex_};
    closed_ = true;
    for (Sent& one : sent_) {
      if (one.job != nullptr) end(one, Outcome::retry("the connection was lost"));
    }
    changed_.notify_all();
  }

  [[nodiscard]] bool is_closed() const {
    const std::scoped_lock lock{mutex_};
    return closed_;
  }

  /// A number for a message that is about to be sent, as soon as there is room; empty: there was
  /// none in time, or the connection is lost.
  std::optional<std::uint64_t> begin(Job& job, std::size_t index, const std::stop_token& stop,
                                     Deadline deadline) {
    std::unique_lock lock{mutex_};
    const auto ready = [&] { return closed_ || !free_.empty(); };
    if (!ready() && !changed_.wait_until(lock, stop, deadline, ready)) return {};
    if (closed_) return {};
    ++job.open;
    const std::size_t place = free_.back();
    free_.pop_back();
    sent_[place] = {++rounds_ * window + place, &job, index};
    return sent_[place].number;
  }
  /// It was not sent after all, and this is why.
  void fail(std::uint64_t number, Outcome outcome) {
    const std::scoped_lock lock{mutex_};
    if (Sent* one = find(number)) end(*one, std::move(outcome));
  }
  void finish(const Job& job, const std::stop_token& stop, Deadline deadline) {
    std::unique_lock lock{mutex_};
    changed_.wait_until(lock, stop, deadline, [&] { return job.open == 0; });
  }
  /// Answers that still come are nobody's.
  void forget(const Job& job) {
    const std::scoped_lock lock{mutex_};
    if (job.open == 0) return;
    for (Sent& one : sent_) {
      if (one.job == &job) clear(one);
    }
    changed_.notify_all();
  }

 private:
  struct Sent {
    std::uint64_t number = 0;  ///< its place, and how many were sent before it
    Job* job = nullptr;        ///< null: the place is free
    std::size_t index = 0;
  };

  [[nodiscard]] Outcome outcome_of(const Answer& answer, const Message& message) const {
    switch (answer.kind) {
      case Answer::Kind::stored: return Outcome::done();
      case Answer::Kind::no_stream:
        return Outcome::retry("no stream takes subject '" + nats::subject_of(message, options_) +
                              "'; make one that does");
      case Answer::Kind::too_large: return Outcome::dead("the stream refuses it: " + answer.text);
      case Answer::Kind::refused: break;
    }
    return Outcome::retry("subject '" + nats::subject_of(message, options_) +
                          "' was refused: " + answer.text);
  }

  /// Null: whoever sent it has given up.
  Sent* find(std::uint64_t number) {
    Sent& one = sent_[number % window];
    return one.job != nullptr && one.number == number ? &one : nullptr;
  }

  void end(Sent& one, Outcome outcome) {
    Job& job = *one.job;
    job.outcomes[one.index] = std::move(outcome);
    const bool was_full = free_.empty();
    clear(one);
    if (--job.open == 0 || was_full) changed_.notify_all();
  }

  void clear(Sent& one) {
    one.job = nullptr;
    free_.push_back(one.number % window);
  }

  const NatsSinkOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Sent> sent_{window};
  std::vector<std::size_t> free_;  ///< places in `sent_`
  std::uint64_t rounds_ = 0;
  bool closed_ = false;
  Pile answers_;  ///< of the thread that receives: without the mutex
};

/// A connection and what is on its way over it.
struct Way {
  std::shared_ptr<Flight> flight;
  Connection connection;

  Way(const NatsConnection& options, const NatsSinkOptions& sink)
      : flight(std::make_shared<Flight>(sink)), connection(options, flight) {}
};

}  // namespace

class NatsPublisher::Line {
 public:
  Line(NatsConnection connection, NatsSinkOptions options, Environment environment)
      : connection_(checked(std::move(connection))),
        options_(checked(std::move(options))),
        environment_(std::move(environment)),
        shown_(nats::Address::parse(connection_.url).shown()) {}

  std::vector<Outcome> publish(std::span<const Message> messages, const std::stop_token& stop) {
    Job job{messages};
    if (const std::shared_ptr<Way> way = find_way()) {
      send(*way, job, stop);
      if (way->flight->is_closed()) forget(way, way->connection.last_error());
      // Whatever holds this connection up must not hold up the next call.
      if (job.open > 0 && !stop.stop_requested()) forget(way, shown_ + late);
    } else {
      for (std::size_t i = 0; i < messages.size(); ++i) {
        if (outgoing(job, i)) put_off(job, i);
      }
    }
    std::vector<Outcome> outcomes;
    outcomes.reserve(job.outcomes.size());
    for (auto& outcome : job.outcomes) {
      outcomes.push_back(outcome ? std::move(*outcome) : Outcome::retry(shown_ + late));
    }
    return outcomes;
  }

 private:
  static constexpr const char* late = ": not acknowledged in time";

  /// Sends one while the next is made, and waits for the answers.
  void send(Way& way, Job& job, const std::stop_token& stop) {
    struct Leave {
      Flight& flight;
      Job& job;
      ~Leave() { flight.forget(job); }
    } const leave{*way.flight, job};
    const auto deadline = Clock::now() + std::chrono::ceil<Clock::duration>(options_.timeout);
    Pile sent;
    for (std::size_t i = 0; i < job.messages.size(); ++i) {
      const std::optional<Outgoing> message = outgoing(job, i);
      if (!message) continue;
      if (const auto number = way.flight->begin(job, i, stop, deadline)) {
        sent.add(send_one(way, *message, *number));
      } else if (way.flight->is_closed()) {
        put_off(job, i);
      }
    }
    sent.clear();  // the answers may take long
    way.flight->finish(job, stop, deadline);
  }

  /// Empty: it cannot be sent, and never will be.
  std::optional<Outgoing> outgoing(Job& job, std::size_t index) const {
    try {
      return nats::outgoing_of(job.messages[index], options_);
    } catch (const std::invalid_argument& error) {
      job.outcomes[index] = Outcome::malformed(error.what());
      return {};
    }
  }

  /// No attempt is counted for what was not even sent.
  static void put_off(Job& job, std::size_t index) {
    job.outcomes[index] = Outcome::postpone(job.messages[index].lease_until);
  }

  nats::Letter send_one(Way& way, const Outgoing& message, std::uint64_t number) {
    nats::Letter letter = nats::letter_of(message, options_.stream.name,
                                          way.connection.inbox() + std::to_string(number));
    const natsStatus status = way.connection.publish(*letter);
    if (status == NATS_OK) return letter;
    const std::string why = shown_ + ": " + natsStatus_GetText(status);
    way.flight->fail(number, status == NATS_MAX_PAYLOAD
                                 ? Outcome::dead(why + ": larger than max_payload of the server")
                                 : Outcome::retry(why));
    return letter;
  }

  /// Connected while there is work, and from then on; empty: the server is away, or was a moment
  /// ago.
  std::shared_ptr<Way> find_way() {
    const std::scoped_lock lock{mutex_};
    if (way_ && way_->flight->is_closed()) lost(way_->connection.last_error());
    if (way_) return way_;
    if (Clock::now() < not_before_) return {};
    try {
      auto way = std::make_shared<Way>(connection_, options_);
      nats::prepare(way->connection, options_);
      environment_.write(LogLevel::info, "broker_connected",
                         {{"broker", std::string_view{shown_}}});
      warn_of_sync();
      failures_ = 0;
      way_ = std::move(way);
    } catch (const BrokerError& error) {
      lost(error.what());
      not_before_ = Clock::now() +
                    reconnect_delay(++failures_, connection_.max_reconnect_delay, environment_);
    }
    return way_;
  }

  /// Once: who acknowledges before a disk has it may lose it with the power.
  void warn_of_sync() {
    if (warned_) return;
    warned_ = true;
    const nats::Sync sync = nats::read_sync(connection_);
    if (sync.state == nats::Sync::State::sometimes) {
      environment_.write(
          LogLevel::warning, "broker_unsynced",
          {{"broker", std::string_view{shown_}}, {"reason", std::string_view{sync.text}}});
    }
  }

  void forget(const std::shared_ptr<Way>& way, const std::string& why) {
    const std::scoped_lock lock{mutex_};
    if (way_ == way) lost(why);
  }

  void lost(const std::string& error) {
    const std::string cut = cut_error(error);
    environment_.write(LogLevel::warning, "broker_lost",
                       {{"broker", std::string_view{shown_}}, {"error", std::string_view{cut}}});
    way_.reset();
  }

  const NatsConnection connection_;
  const NatsSinkOptions options_;
  const Environment environment_;
  const std::string shown_;
  std::mutex mutex_;
  std::shared_ptr<Way> way_;
  Clock::time_point not_before_ = {};
  int failures_ = 0;
  bool warned_ = false;
};

NatsPublisher::NatsPublisher(NatsConnection connection, NatsSinkOptions options,
                             Environment environment)
    : line_(std::make_unique<Line>(std::move(connection), std::move(options),
                                   std::move(environment))) {}

NatsPublisher::~NatsPublisher() = default;

std::vector<Outcome> NatsPublisher::publish(std::span<const Message> messages,
                                            std::stop_token stop) {
  return line_->publish(messages, stop);
}

void NatsPublisher::send(const CloudEvent& event) {
  const Message message = direct_message(event);
  const Outcome outcome = line_->publish({&message, 1}, {}).at(0);
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
