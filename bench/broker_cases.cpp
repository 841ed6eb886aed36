#include <amqp_tcp_socket.h>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "backlog.hpp"
#include "cases.hpp"
#include "twinbox/dispatcher.hpp"
#include "twinbox/rabbitmq.hpp"

namespace twinbox::bench {
namespace {

constexpr double relay_target = 0.60;
constexpr std::size_t payload_size = 256;

std::string broker_url() {
  const char* url = std::getenv("TWINBOX_TEST_RABBITMQ");
  if (url == nullptr) throw std::runtime_error("no broker: tool/brokers start <folder>");
  return url;
}

amqp_bytes_t bytes_of(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};
}

double rate(int count, std::chrono::steady_clock::time_point begin) {
  return count / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The client library alone: one connection, a durable queue, persistent messages, confirms.
class PlainPublisher {
 public:
  explicit PlainPublisher(std::string queue) : queue_(std::move(queue)) {
    std::string url = broker_url();
    amqp_connection_info info;
    amqp_parse_url(url.data(), &info);
    state_ = amqp_new_connection();
    if (amqp_socket_open(amqp_tcp_socket_new(state_), info.host, info.port) != AMQP_STATUS_OK) {
      throw std::runtime_error("the broker cannot be reached");
    }
    check(amqp_login(state_, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password));
    amqp_channel_open(state_, 1);
    check(amqp_get_rpc_reply(state_));
    amqp_confirm_select(state_, 1);
    check(amqp_get_rpc_reply(state_));
    amqp_queue_declare(state_, 1, bytes_of(queue_), 0, 1, 0, 0, amqp_empty_table);
    check(amqp_get_rpc_reply(state_));
  }
  ~PlainPublisher() {
    amqp_queue_delete(state_, 1, bytes_of(queue_), 0, 0);
    amqp_connection_close(state_, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(state_);
  }
  PlainPublisher(const PlainPublisher&) = delete;
  PlainPublisher& operator=(const PlainPublisher&) = delete;

  void purge() {
    amqp_queue_purge(state_, 1, bytes_of(queue_));
    check(amqp_get_rpc_reply(state_));
  }

  double publish(int count) {
    purge();
    const std::string body(payload_size, 'x');
    amqp_basic_properties_t properties{};
    properties.delivery_mode = 2;
    properties.message_id = amqp_cstring_bytes("0191e2a0-0000-7000-8000-000000000000");
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
    const auto begin = std::chrono::steady_clock::now();
    for (int sent = 0; sent < count; ++sent) {
      if (amqp_basic_publish(state_, 1, amqp_empty_bytes, bytes_of(queue_), 1, 0, &properties,
                             bytes_of(body)) != AMQP_STATUS_OK) {
        throw std::runtime_error("the plain publisher cannot publish");
      }
      ++published_;
      while (published_ - confirmed_ > 2000) read_confirm();
    }
    while (confirmed_ < published_) read_confirm();
    return rate(count, begin);
  }

 private:
  static void check(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error("the broker refuses");
  }
  void read_confirm() {
    amqp_maybe_release_buffers(state_);
    amqp_frame_t frame;
    if (amqp_simple_wait_frame(state_, &frame) != AMQP_STATUS_OK ||
        frame.payload.method.id != AMQP_BASIC_ACK_METHOD) {
      throw std::runtime_error("the broker does not confirm");
    }
    confirmed_ = static_cast<const amqp_basic_ack_t*>(frame.payload.method.decoded)->delivery_tag;
  }

  std::string queue_;
  amqp_connection_state_t state_;
  std::uint64_t published_ = 0;
  std::uint64_t confirmed_ = 0;
};

/// A dispatcher that brings what the outbox holds to the broker.
class Relay {
 public:
  Relay(Dialect dialect, const std::string& queue)
      : backlog_(dialect, Backlog::Side::ours, 1, payload_size),
        outbox_(backlog_.place().database(), backlog_.place().site().options()),
        cleaner_(queue),
        publisher_(std::make_shared<RabbitPublisher>(RabbitConnection{.url = broker_url()},
                                                     RabbitSinkOptions{.routing_key = queue})) {}

  double run(int count) {
    cleaner_.purge();
    backlog_.fill(count);
    Handlers handlers;
    handlers.add(TopicPattern{"#"}, {rabbitmq_sink(publisher_), {.max_batch = 500}});
    std::mutex mutex;
    std::condition_variable some;
    int done = 0;
    DispatchObserver observer;
    observer.handled = [&](std::string_view, const Message&, const Outcome& outcome, Duration) {
      if (outcome.kind() != Outcome::Kind::done) throw std::runtime_error(outcome.reason());
      const std::scoped_lock lock{mutex};
      if (++done == count) some.notify_all();
    };
    DispatcherOptions options;
    options.batch = 1000;
    options.lease = lease;
    Dispatcher dispatcher{outbox_, handlers, options, observer};
    const auto begin = std::chrono::steady_clock::now();
    {
      const std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
      std::unique_lock lock{mutex};
      if (!some.wait_for(lock, std::chrono::minutes{5}, [&] { return done == count; })) {
        throw std::runtime_error("the relay does not end");
      }
    }  // and written down
    return rate(count, begin);
  }

 private:
  Backlog backlog_;
  Outbox outbox_;
  PlainPublisher cleaner_;
  std::shared_ptr<RabbitPublisher> publisher_;
};

}  // namespace

std::vector<Case> broker_cases(Dialect dialect) {
  return {{"relay over RabbitMQ", dialect, "msg/s", relay_target, false, [=](const Effort& effort) {
             auto relay = std::make_shared<Relay>(dialect, "twinbox_bench.ours");
             auto plain = std::make_shared<PlainPublisher>("twinbox_bench.plain");
             return Duel{[=] { return relay->run(effort.backlog); },
                         [=] { return plain->publish(effort.backlog); }};
           }}};
}

}  // namespace twinbox::bench
