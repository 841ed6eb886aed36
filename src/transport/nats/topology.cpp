#include "transport/nats/topology.hpp"

#include <algorithm>

namespace twinbox::nats {
namespace {

std::int64_t nanoseconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

jsRetentionPolicy policy_of(NatsRetention retention) {
  switch (retention) {
    case NatsRetention::interest: return js_InterestPolicy;
    case NatsRetention::work_queue: return js_WorkQueuePolicy;
    case NatsRetention::limits: break;
  }
  return js_LimitsPolicy;
}

/// A subject of a stream or a filter: as is_subject, with wildcards.
bool is_pattern(std::string text) {
  if (text == ">") return true;
  if (text.ends_with(".>")) text.resize(text.size() - 2);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '*') continue;
    const bool whole =
        (at == 0 || text[at - 1] == '.') && (at + 1 == text.size() || text[at + 1] == '.');
    if (!whole) return false;
    text[at] = 'x';
  }
  return is_subject(text);
}

void check_stream(const NatsStream& stream) {
  if (!stream.name.empty() && !is_name(stream.name)) {
    throw std::invalid_argument("stream '" + stream.name +
                                "' is no name: up to 200 characters without blanks, . * > / \\");
  }
  for (const std::string& subject : stream.subjects) {
    if (!is_pattern(subject)) {
      throw std::invalid_argument("subjects: '" + subject +
                                  "', expected words between dots, * for "
                                  "one word, > at the end for any number");
    }
  }
  if (stream.replicas < 1 || stream.replicas > 5) {
    throw std::invalid_argument("replicas must be 1 to 5");
  }
  if (stream.max_age < Duration::zero()) {
    throw std::invalid_argument("max_age must not be negative");
  }
}

void check_timeout(Duration timeout, const char* name) {
  if (timeout <= Duration::zero()) {
    throw std::invalid_argument(std::string{name} + " must be longer than zero");
  }
}

[[noreturn]] void missing(const Connection& connection, const std::string& what) {
  throw BrokerError(connection.display_name() + ": there is no " + what +
                    "; make it, or let it be made: topology = declare");
}

void create_stream(const Connection& connection, const NatsStream& stream) {
  jsStreamConfig config;
  jsStreamConfig_Init(&config);
  std::vector<const char*> subjects;
  for (const std::string& subject : stream.subjects) subjects.push_back(subject.c_str());
  config.Name = stream.name.c_str();
  config.Subjects = subjects.data();
  config.SubjectsLen = static_cast<int>(subjects.size());
  config.Retention = policy_of(stream.retention);
  config.Storage = js_FileStorage;
  config.Replicas = stream.replicas;
  config.MaxAge = nanoseconds(stream.max_age);
  jsStreamInfo* info = nullptr;
  const natsStatus status = js_AddStream(&info, connection.jet_stream(), &config, nullptr, nullptr);
  const Owned<jsStreamInfo> owned{info};
  connection.check(status, "making stream '" + stream.name + "'");
}

/// The stream, created if requested and missing.
Owned<jsStreamInfo> ensure_stream(const Connection& connection, const NatsStream& stream,
                                  Topology topology) {
  auto info = find_stream(connection, stream.name);
  if (!info && topology == Topology::declare) {
    create_stream(connection, stream);
    info = find_stream(connection, stream.name);
  }
  if (!info) missing(connection, "stream '" + stream.name + "'");
  return info;
}

void create_consumer(const Connection& connection, const NatsSourceOptions& options) {
  jsConsumerConfig config;
  jsConsumerConfig_Init(&config);
  config.Durable = options.consumer.c_str();
  config.AckPolicy = js_AckExplicit;
  config.AckWait = nanoseconds(options.ack_wait);
  config.MaxDeliver = -1;  // a server drops a delivery at its limit; we dead-letter it instead
  config.MaxAckPending = std::max(1000, options.prefetch);
  if (!options.filter.empty()) config.FilterSubject = options.filter.c_str();
  jsConsumerInfo* info = nullptr;
  const natsStatus status = js_AddConsumer(&info, connection.jet_stream(),
                                           options.stream.name.c_str(), &config, nullptr, nullptr);
  const Owned<jsConsumerInfo> owned{info};
  connection.check(
      status, "making consumer '" + options.consumer + "' of stream '" + options.stream.name + "'");
}

void check_consumer(const Connection& connection, const NatsSourceOptions& options,
                    const jsConsumerConfig& config) {
  const std::string name = connection.display_name() + ": consumer '" + options.consumer +
                           "' of stream '" + options.stream.name + "' ";
  if (config.DeliverSubject != nullptr && *config.DeliverSubject != '\0') {
    throw BrokerError(name + "is a push consumer; delete it, or name another one");
  }
  if (config.AckPolicy != js_AckExplicit) {
    throw BrokerError(name + "has another ack policy than explicit; delete it, or name another");
  }
  const std::string filter = config.FilterSubject == nullptr ? "" : config.FilterSubject;
  if (!options.filter.empty() && filter != options.filter) {
    throw BrokerError(name + "has the filter '" + filter + "' instead of '" + options.filter +
                      "'; delete it, or describe it as it is");
  }
}

/// A dead letter that its own source receives again would loop forever.
void ensure_dead_letter_stream(const Connection& connection, const NatsSourceOptions& options) {
  const std::string subject = dead_letter_subject_of(options);
  std::string stream_name = stream_of_subject(connection, subject);
  if (stream_name.empty() && options.topology == Topology::declare) {
    const NatsStream made = dead_letter_stream(options);
    create_stream(connection, made);
    stream_name = made.name;
  }
  if (stream_name.empty())
    missing(connection, "stream that takes dead letters, subject '" + subject + "'");
  if (stream_name == options.stream.name) {
    throw BrokerError(connection.display_name() + ": dead letters, subject '" + subject +
                      "', would come back to their own stream '" + stream_name +
                      "'; set dead_letter_subject to one that another stream takes");
  }
}

}  // namespace

std::string dead_letter_subject_of(const NatsSourceOptions& options) {
  if (!options.dead_letter_subject.empty()) return options.dead_letter_subject;
  return "dead." + options.stream.name + "." + options.consumer;
}

/// Consumers of one stream share it, unless they have a subject of their own.
NatsStream dead_letter_stream(const NatsSourceOptions& options) {
  NatsStream stream{.name = options.stream.name + "_dead",
                    .subjects = {"dead." + options.stream.name + ".*"},
                    .replicas = options.stream.replicas};
  if (!options.dead_letter_subject.empty()) {
    stream.name = options.stream.name + "_" + options.consumer + "_dead";
    stream.subjects = {options.dead_letter_subject};
  }
  return stream;
}

Owned<jsStreamInfo> find_stream(const Connection& connection, const std::string& name) {
  jsStreamInfo* info = nullptr;
  jsErrCode code{};
  const natsStatus status =
      js_GetStreamInfo(&info, connection.jet_stream(), name.c_str(), nullptr, &code);
  Owned<jsStreamInfo> owned{info};
  if (status == NATS_NOT_FOUND || code == JSStreamNotFoundErr) return {};
  connection.check(status, "looking for stream '" + name + "'");
  return owned;
}

Owned<jsConsumerInfo> find_consumer(const Connection& connection, const std::string& stream,
                                    const std::string& consumer) {
  jsConsumerInfo* info = nullptr;
  jsErrCode code{};
  const natsStatus status = js_GetConsumerInfo(&info, connection.jet_stream(), stream.c_str(),
                                               consumer.c_str(), nullptr, &code);
  Owned<jsConsumerInfo> owned{info};
  if (status == NATS_NOT_FOUND || code == JSConsumerNotFoundErr) return {};
  connection.check(status, "looking for consumer '" + consumer + "' of stream '" + stream + "'");
  return owned;
}

std::string stream_of_subject(const Connection& connection, const std::string& subject) {
  jsOptions options;
  jsOptions_Init(&options);
  options.Stream.Info.SubjectsFilter = subject.c_str();
  jsStreamNamesList* list = nullptr;
  const natsStatus status = js_StreamNames(&list, connection.jet_stream(), &options, nullptr);
  const Owned<jsStreamNamesList> owned{list};
  if (status == NATS_NOT_FOUND) return {};
  connection.check(status, "looking for the stream of subject '" + subject + "'");
  return list->Count > 0 ? list->List[0] : "";
}

void prepare(const Connection& connection, const NatsSinkOptions& options) {
  if (options.stream.name.empty()) return;
  const auto stream = ensure_stream(connection, options.stream, options.topology);
  if (stream->Config->NoAck) {
    throw BrokerError(connection.display_name() + ": stream '" + options.stream.name +
                      "' acknowledges nothing (no_ack); make it without that");
  }
}

Owned<jsConsumerInfo> prepare(const Connection& connection, const NatsSourceOptions& options) {
  ensure_stream(connection, options.stream, options.topology);
  const auto find = [&] {
    return find_consumer(connection, options.stream.name, options.consumer);
  };
  auto consumer = find();
  if (!consumer && options.topology == Topology::declare) {
    create_consumer(connection, options);
    consumer = find();
  }
  if (!consumer) {
    missing(connection,
            "consumer '" + options.consumer + "' of stream '" + options.stream.name + "'");
  }
  check_consumer(connection, options, *consumer->Config);
  ensure_dead_letter_stream(connection, options);
  return consumer;
}

void check(const NatsSinkOptions& options) {
  check_stream(options.stream);
  check_timeout(options.timeout, "timeout");
  if (options.max_bytes < 1) throw std::invalid_argument("max_bytes must be at least 1");
  if (!options.subject.empty() && !is_subject(options.subject)) {
    throw std::invalid_argument("subject '" + options.subject +
                                "', expected words between dots, without blanks and wildcards");
  }
  if (!options.subject_prefix.empty() && !is_subject(options.subject_prefix + "x")) {
    throw std::invalid_argument("subject_prefix '" + options.subject_prefix +
                                "', expected the beginning of a subject, such as shop.");
  }
  if (options.topology == Topology::declare &&
      (options.stream.name.empty() || options.stream.subjects.empty())) {
    throw std::invalid_argument("topology = declare needs stream and subjects: what to make");
  }
}

void check(const NatsSourceOptions& options) {
  if (options.stream.name.empty()) {
    throw std::invalid_argument("stream is missing: what to consume from");
  }
  check_stream(options.stream);
  if (!is_name(options.consumer)) {
    throw std::invalid_argument(
        "consumer is missing, or no name: up to 200 characters without blanks, . * > / \\");
  }
  if (!options.filter.empty() && !is_pattern(options.filter)) {
    throw std::invalid_argument("filter '" + options.filter +
                                "', expected words between dots, * for one word, > at the end");
  }
  if (options.topology == Topology::declare && options.stream.subjects.empty()) {
    throw std::invalid_argument("topology = declare needs subjects: those that the stream takes");
  }
  if (options.prefetch < 1 || options.prefetch > 65'535) {
    throw std::invalid_argument("prefetch must be 1 to 65535");
  }
  if (options.retry.max_retries < 0) {
    throw std::invalid_argument("max_retries must not be negative");
  }
  if (options.retry.delay < Duration::zero()) {
    throw std::invalid_argument("delay must not be negative");
  }
  check_timeout(options.ack_wait, "ack_wait");
  if (options.max_deliver < 0) throw std::invalid_argument("max_deliver must not be negative");
  if (!options.dead_letter_subject.empty() && !is_subject(options.dead_letter_subject)) {
    throw std::invalid_argument("dead_letter_subject '" + options.dead_letter_subject +
                                "', expected words between dots, without blanks and wildcards");
  }
}

}  // namespace twinbox::nats
