#include <algorithm>

#include "transport/nats/probe.hpp"
#include "transport/nats/topology.hpp"

namespace twinbox {
namespace {

using nats::Connection;
using Level = Finding::Level;
using Findings = std::vector<Finding>;

/// Ignores all events.
class NullListener : public nats::Listener {
 public:
  void receive(nats::MessagePtr) override {}
  void refused(const std::string&, const std::string&) override {}
  void closed() override {}
};

bool on_this_machine(const nats::Server& server) {
  return server.host == "localhost" || server.host == "::1" || server.host.starts_with("127.");
}

void examine_address(Findings& findings, const NatsConnection& connection) {
  const nats::Address address = nats::Address::parse(connection.url);
  const bool here = std::ranges::all_of(address.servers, on_this_machine);
  if (!address.tls && !here) {
    findings.push_back({"tls", Level::warning,
                        address.display_name() +
                            " is reached without TLS: passwords and messages can be "
                            "read on the way",
                        "use tls://, with the server's TLS switched on"});
  }
  const bool login = connection.url.find('@') != std::string::npos ||
                     !connection.credentials_file.empty() || !connection.certificate_file.empty();
  if (!login && !here) {
    findings.push_back({"user", Level::warning,
                        address.display_name() +
                            " is used without a login: any client that reaches it can "
                            "read and delete",
                        "give the server users or tokens, and name one in url"});
  }
}

void examine_sync(Findings& findings, const NatsConnection& connection) {
  using State = nats::SyncPolicy::State;
  const nats::SyncPolicy sync = nats::read_sync_policy(connection);
  switch (sync.state) {
    case State::always: findings.push_back({"sync", Level::ok, sync.text}); break;
    case State::sometimes:
      findings.push_back({"sync", Level::warning,
                          sync.text + ", after it has acknowledged: a power failure can lose "
                                      "later messages",
                          "keep several replicas on machines that do not fail together; or, from "
                          "2.10 on, sync_interval: always"});
      break;
    case State::unknown:
      findings.push_back({"sync", Level::warning, "not known: " + sync.text,
                          "set monitor_url = \"http://host:8222\" to have it looked at"});
      break;
  }
}

/// A missing object: how severe it is, and what to do.
void add_missing(Findings& findings, const char* check, const std::string& found,
                 Topology topology) {
  if (topology == Topology::declare) {
    findings.push_back(
        {check, Level::warning, found, "topology = declare makes it: start what uses it"});
  } else {
    findings.push_back({check, Level::error, found, "make it, or set topology = declare"});
  }
}

/// Settings by which a stream may lose or refuse messages.
void examine_stream(Findings& findings, const jsStreamInfo& info) {
  const jsStreamConfig& config = *info.Config;
  const std::string name = "stream '" + std::string{config.Name} + "' ";
  const std::size_t before = findings.size();
  const auto add = [&](const char* check, Level level, const std::string& found, const char* fix) {
    findings.push_back({check, level, name + found, fix});
  };
  if (config.Storage == js_MemoryStorage) {
    add("storage", Level::error, "lies in memory: a restart of the server loses it",
        "make it again with file storage");
  }
  if (config.NoAck) {
    add("acknowledge", Level::error,
        "acknowledges nothing (no_ack): a sink cannot know which messages arrived",
        "make it without no_ack");
  }
  if (config.Sealed) {
    add("sealed", Level::error, "is sealed: it takes nothing any more", "use another stream");
  }
  const bool cluster = info.Cluster != nullptr && info.Cluster->Name != nullptr;
  if (cluster && config.Replicas < 2) {
    add("replicas", Level::warning, "has one replica in a cluster: it goes with its server",
        "nats stream edit --replicas 3");
  }
  const bool limited = config.MaxMsgs > 0 || config.MaxBytes > 0 || config.MaxMsgsPerSubject > 0;
  if (limited && config.Discard == js_DiscardOld) {
    add("discard", Level::warning,
        "drops its oldest messages when it is full, read or not (discard old)",
        "nats stream edit --discard new: a full stream then refuses messages, and outboxes keep "
        "them");
  }
  if (config.MaxAge > 0) {
    add("age", Level::warning,
        "drops messages older than " + std::to_string(config.MaxAge / 1'000'000'000) +
            " s (max_age), read or not",
        "make max_age longer than a consumer may ever be away");
  }
  if (config.Retention == js_InterestPolicy && info.State.Consumers == 0) {
    add("interest", Level::warning,
        "keeps only messages that a consumer waits for, and has no consumer",
        "make the consumers first, or use the retention limits");
  }
  if (findings.size() == before) {
    findings.push_back({"stream", Level::ok, name + "keeps its messages"});
  }
}

void examine_consumer(Findings& findings, const jsConsumerInfo& info) {
  const jsConsumerConfig& config = *info.Config;
  const std::string name = "consumer '" + std::string{info.Name} + "' ";
  const std::size_t before = findings.size();
  if (config.MaxDeliver > 0) {
    findings.push_back({"deliver", Level::warning,
                        name + "gives nothing more after " + std::to_string(config.MaxDeliver) +
                            " deliveries (max_deliver), accepted or not, without a notice",
                        "nats consumer edit --max-deliver=-1; the option max_deliver of the source "
                        "makes a dead letter of it instead"});
  }
  if (config.InactiveThreshold > 0) {
    findings.push_back({"inactive", Level::warning,
                        name + "is deleted when no client asks it for " +
                            std::to_string(config.InactiveThreshold / 1'000'000'000) +
                            " s, with its positions",
                        "make it again without inactive_threshold"});
  }
  if (config.MemoryStorage) {
    findings.push_back({"memory", Level::warning,
                        name + "keeps acknowledgements in memory: a restart redelivers messages",
                        "make it again without memory storage"});
  }
  if (findings.size() == before) {
    findings.push_back({"consumer", Level::ok, name + "delivers until it is acknowledged"});
  }
}

void examine_dead_letters(Findings& findings, const Connection& connection,
                          const NatsSourceOptions& options) {
  const std::string subject = nats::dead_letter_subject_of(options);
  const std::string stream_name = nats::stream_of_subject(connection, subject);
  if (stream_name.empty()) {
    return add_missing(findings, "dead",
                       "there is no stream that takes dead letters, subject '" + subject + "'",
                       options.topology);
  }
  const auto info = nats::find_stream(connection, stream_name);
  if (info) examine_stream(findings, *info);
  const std::uint64_t count = info ? info->State.Msgs : 0;
  if (count == 0) {
    findings.push_back({"dead", Level::ok, "no dead letters in stream '" + stream_name + "'"});
  } else {
    findings.push_back({"dead", Level::warning,
                        std::to_string(count) + " dead letters in stream '" + stream_name + "'",
                        "read their header twinbox-error, then publish them again to the subject "
                        "in twinbox-subject, or purge them"});
  }
}

/// Connects, queries, and reports errors.
template <class Ask>
Findings examine(const NatsConnection& options, Ask ask) {
  Findings findings;
  nats::check(options);
  try {
    const Connection connection{options, std::make_shared<NullListener>()};
    findings.push_back({"reach", Level::ok, connection.display_name() + " answers"});
    examine_address(findings, options);
    examine_sync(findings, options);
    try {
      ask(connection, findings);
    } catch (const BrokerError& error) {
      findings.push_back({"stream", Level::error, error.what(),
                          "switch JetStream on, and give the user its rights"});
    }
  } catch (const BrokerError& error) {
    findings.push_back({"reach", Level::error, error.what(), "start the server, or mend url"});
  }
  return findings;
}

/// Empty: it does not exist, and the finding says so.
nats::Owned<jsStreamInfo> look_for_stream(Findings& findings, const Connection& connection,
                                          const std::string& name, Topology topology) {
  auto info = nats::find_stream(connection, name);
  if (info) {
    examine_stream(findings, *info);
  } else {
    add_missing(findings, "stream", "there is no stream '" + name + "'", topology);
  }
  return info;
}

}  // namespace

std::vector<Finding> examine_nats(const NatsConnection& connection,
                                  const NatsSinkOptions& options) {
  return examine(connection, [&](const Connection& open, Findings& findings) {
    std::string name = options.stream.name;
    if (name.empty() && !options.subject.empty()) {
      name = nats::stream_of_subject(open, options.subject);
      if (name.empty()) {
        findings.push_back({"stream", Level::error,
                            "no stream takes subject '" + options.subject + "'", "make one"});
      }
    }
    if (!name.empty()) look_for_stream(findings, open, name, options.topology);
  });
}

std::vector<Finding> examine_nats(const NatsConnection& connection,
                                  const NatsSourceOptions& options) {
  return examine(connection, [&](const Connection& open, Findings& findings) {
    if (!look_for_stream(findings, open, options.stream.name, options.topology)) return;
    const auto consumer = nats::find_consumer(open, options.stream.name, options.consumer);
    if (consumer) {
      examine_consumer(findings, *consumer);
    } else {
      add_missing(findings, "consumer",
                  "stream '" + options.stream.name + "' has no consumer '" + options.consumer + "'",
                  options.topology);
    }
    examine_dead_letters(findings, open, options);
  });
}

}  // namespace twinbox
