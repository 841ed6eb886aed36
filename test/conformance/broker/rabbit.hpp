// RabbitMQ as the tests of sinks and sources see it from the other side.
#pragma once

#include <amqp.h>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace twinbox::test {

/// What a test publishes, or finds in a queue.
struct RabbitMessage {
  std::string body;
  std::string routing_key = {};
  std::string content_type = {};
  std::string content_encoding = {};
  std::string message_id = {};
  std::string type = {};
  std::string app_id = {};
  std::string correlation_id = {};
  std::string expiration = {};
  int delivery_mode = 0;  ///< 0: none, as is a priority of 0
  int priority = 0;
  bool redelivered = false;
  std::map<std::string, std::string> headers = {};  ///< texts and numbers
  std::vector<amqp_table_entry_t> fields = {};      ///< further headers; only sent
};

/// A client of the test's own. Not thread-safe. Throws std::runtime_error.
class Rabbit {
 public:
  /// To the test's broker.
  Rabbit();
  ~Rabbit();
  Rabbit(const Rabbit&) = delete;
  Rabbit& operator=(const Rabbit&) = delete;

  static std::string url();
  /// A setting of tool/brokers; throws when there is none.
  static std::string setting(const char* name);
  static void stop(const std::string& signal = "TERM");
  static void start();
  /// Whether it takes no messages for now, as when its memory or its disk is full.
  static void alarm(bool on);
  /// The test's user may publish there under routing keys that match, and under no others.
  static void permit(const std::string& exchange, const std::string& pattern);

  /// Whether the test's user may only use what is there.
  static void configure_nothing(bool on);

  /// A durable classic queue, that is deleted with this object; `arguments`: texts and numbers.
  std::string queue(const std::string& name,
                    const std::map<std::string, std::string>& arguments = {}, bool durable = true,
                    bool auto_delete = false);
  void exchange(const std::string& name, const std::string& type = "topic");
  void bind(const std::string& queue, const std::string& exchange, const std::string& key);
  /// Deletes it with this object.
  void forget_queue(const std::string& name);
  void forget_exchange(const std::string& name);

  void publish(const std::string& exchange, const std::string& key, const RabbitMessage& message);
  /// Takes the first message of a queue; empty: there is none.
  std::optional<RabbitMessage> get(const std::string& queue);
  std::vector<RabbitMessage> drain(const std::string& queue);
  std::uint32_t count(const std::string& queue);
  void purge(const std::string& queue);
  void remove_queue(const std::string& queue);
  void remove_exchange(const std::string& exchange);

 private:
  void connect();
  void check(const amqp_rpc_reply_t& reply, const std::string& what) const;

  amqp_connection_state_t state_ = nullptr;
  std::vector<std::string> queues_;
  std::vector<std::string> exchanges_;
};

}  // namespace twinbox::test
