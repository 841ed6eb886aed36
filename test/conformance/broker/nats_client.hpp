// NATS as the tests of sinks and sources see it from the other side.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nats/nats.h>
#include <string>
#include <utility>
#include <vector>

namespace twinbox::test {

/// What a test publishes, or finds in a stream.
struct NatsMessage {
  std::string body;
  std::map<std::string, std::string> headers = {};
  std::string subject = {};
  std::vector<std::pair<std::string, std::string>> more = {};  ///< further values of headers
};

/// A client of the test's own. Throws std::runtime_error.
class Nats {
 public:
  /// To the test's server, or another one.
  explicit Nats(const std::string& to = url());
  ~Nats();
  Nats(const Nats&) = delete;
  Nats& operator=(const Nats&) = delete;

  static std::string url();
  /// A setting of tool/brokers; throws when there is none.
  static std::string setting(const char* name);
  /// `member`: of the cluster; empty: the test's server.
  static void stop(const std::string& signal = "TERM", const std::string& member = {});
  /// Whatever is down.
  static void start();

  /// A stream on disk, deleted with this object; `change` has the last word.
  std::string stream(const std::string& name, std::vector<std::string> subjects,
                     const std::function<void(jsStreamConfig&)>& change = {});
  void consumer(const std::string& stream, const std::string& name,
                const std::function<void(jsConsumerConfig&)>& change = {});
  /// Deletes it with this object.
  void forget(const std::string& stream) { streams_.push_back(stream); }

  void publish(const std::string& subject, const NatsMessage& message);
  /// With exactly these bytes as headers, from `NATS/1.0` to the empty line, over a connection
  /// without any client library.
  static void publish_raw(const std::string& subject, const std::string& headers,
                          const std::string& body);
  /// The headers of a message in a stream, as the server keeps them.
  std::string raw_headers(const std::string& stream, std::uint64_t sequence);
  /// Everything that a stream holds, in its order.
  std::vector<NatsMessage> read(const std::string& stream);
  std::uint64_t count(const std::string& stream);
  /// What a consumer has not acknowledged, delivered or not.
  std::uint64_t left(const std::string& stream, const std::string& consumer);
  /// How often a consumer has delivered, repetitions counted.
  std::uint64_t deliveries(const std::string& stream, const std::string& consumer);
  /// From now on `next` waits for what is published there, acknowledgements too.
  void watch(const std::string& subject);
  std::string next();
  /// The member of the cluster that leads a stream; empty: none does now.
  std::string leader(const std::string& stream);
  void remove_stream(const std::string& stream);
  void remove_consumer(const std::string& stream, const std::string& consumer);

 private:
  jsConsumerInfo* look(const std::string& stream, const std::string& consumer);

  natsConnection* connection_ = nullptr;
  jsCtx* context_ = nullptr;
  natsSubscription* watched_ = nullptr;
  std::vector<std::string> streams_;
};

}  // namespace twinbox::test
