// What the tests of NATS share.
#pragma once

#include <algorithm>

#include "nats_client.hpp"
#include "running_source.hpp"
#include "support/inbox_test.hpp"
#include <twinbox/nats.hpp>

namespace twinbox::test {

class RunningNats : public RunningSource {
 public:
  RunningNats(const NatsConnection& connection, const NatsSourceOptions& options, AcceptCall accept,
              const Environment& environment = {})
      : RunningSource(std::move(accept), [&](AcceptCall call) {
          return nats_source(connection, options, std::move(call), environment);
        }) {}
};

/// A name that a stream may have.
inline std::string own_stream(const std::string& what) {
  std::string name = own_name(what);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

/// A stream of the test's own takes `<stream>.>`.
class NatsTest : public InboxTest {
 protected:
  NatsTest() : stream(own_stream("in")) {
    nats.forget(stream);
    nats.forget(stream + "_dead");
  }
  static NatsConnection connection() { return {.url = Nats::url()}; }
  static NatsConnection connection(const Relay& relay) {
    return {.url = with_port(Nats::url(), relay.port())};
  }
  NatsStream own() { return {.name = stream, .subjects = {stream + ".>"}}; }
  /// Makes the stream, its consumer and the place of its dead letters.
  NatsSourceOptions source_options() {
    NatsSourceOptions options{.stream = own(), .consumer = "box", .topology = Topology::declare};
    options.retry = {.max_retries = 2, .delay = 1ms};
    options.ack_wait = 1s;
    return options;
  }
  RunningNats run(const NatsSourceOptions& options) {
    return {connection(), options, accept_into(inbox()), environment()};
  }
  RunningNats run() { return run(source_options()); }
  void make_stream(const std::function<void(jsStreamConfig&)>& change = {}) {
    nats.stream(stream, {stream + ".>"}, change);
  }
  /// The consumer and the place of dead letters, too: a source has been there before.
  void make_all() {
    make_stream();
    nats.stream(stream + "_dead", {"dead." + stream + ".*"});
    nats.consumer(stream, "box", [](jsConsumerConfig& config) {
      config.AckWait = std::chrono::nanoseconds{1s}.count();
    });
  }
  void send(const std::string& id, const std::string& topic = "order.placed",
            std::map<std::string, std::string> headers = {}) {
    headers["Nats-Msg-Id"] = id;
    headers["twinbox-topic"] = topic;
    nats.publish(stream + "." + topic, {.body = payload(id), .headers = std::move(headers)});
  }
  std::uint64_t left() { return nats.left(stream, "box"); }
  /// A server reads acknowledgements at its leisure.
  bool acknowledged() {
    return eventually([&] { return left() == 0; });
  }
  std::vector<NatsMessage> dead_letters() { return nats.read(stream + "_dead"); }
  MessageKey key(const std::string& id) { return {Source{"nats"}, MessageId{id}}; }

  Nats nats;
  std::string stream;
};

}  // namespace twinbox::test
