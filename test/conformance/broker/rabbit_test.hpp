// What the tests of RabbitMQ share.
#pragma once

#include "rabbit.hpp"
#include "running_source.hpp"
#include "support/inbox_test.hpp"
#include <twinbox/rabbitmq.hpp>

namespace twinbox::test {

class RunningRabbit : public RunningSource {
 public:
  RunningRabbit(const RabbitConnection& connection, const RabbitSourceOptions& options,
                AcceptCall accept, const Environment& environment = {})
      : RunningSource(std::move(accept), [&](AcceptCall call) {
          return rabbitmq_source(connection, options, std::move(call), environment);
        }) {}
};

class RabbitTest : public InboxTest {
 protected:
  static RabbitConnection connection() { return {.url = Rabbit::url()}; }
  /// A classic queue of the test's own, with a queue for its dead letters.
  RabbitSourceOptions source_options() {
    if (queue.empty()) {
      queue = rabbit.queue(own_name("in"));
      rabbit.queue(queue + ".dead");
    }
    return {.queue = queue, .queue_type = "classic", .retry = {.max_retries = 2, .delay = 1ms}};
  }
  RunningRabbit run(RabbitSourceOptions options) {
    return {connection(), std::move(options), accept_into(inbox()), environment()};
  }
  std::unique_ptr<RunningRabbit> run() {
    return std::make_unique<RunningRabbit>(connection(), source_options(), accept_into(inbox()),
                                           environment());
  }
  void send(const std::string& id, const std::string& topic = "order.placed") {
    rabbit.publish("", queue, {.body = payload(id), .message_id = id, .type = topic});
  }
  MessageKey key(const std::string& id) { return {Source{"rabbitmq"}, MessageId{id}}; }

  Rabbit rabbit;
  std::string queue;
};

}  // namespace twinbox::test
