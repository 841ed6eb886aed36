#include <amqp_tcp_socket.h>
#include <memory>
#include <stdexcept>

#include "broker_side.hpp"
#include "twinbox/rabbitmq.hpp"

namespace twinbox::bench {
namespace {

amqp_bytes_t bytes_of(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};
}

/// The client library alone: one connection, a durable queue, persistent messages, confirms.
class PlainPublisher {
 public:
  explicit PlainPublisher(std::string queue) : queue_(std::move(queue)) {
    std::string url = broker_setting("TWINBOX_TEST_RABBITMQ");
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
    const std::string body(broker_payload_size, 'x');
    amqp_basic_properties_t properties{};
    properties.delivery_mode = 2;
    properties.message_id = amqp_cstring_bytes("0191e2a0-0000-7000-8000-000000000000");
    std::array<amqp_table_entry_t, broker_labels.size()> labels{};
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i].key = amqp_cstring_bytes(broker_labels[i].first);
      labels[i].value.kind = AMQP_FIELD_KIND_UTF8;
      labels[i].value.value.bytes = amqp_cstring_bytes(broker_labels[i].second);
    }
    properties.headers = {static_cast<int>(labels.size()), labels.data()};
    properties._flags =
        AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_HEADERS_FLAG;
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

}  // namespace

BrokerSide rabbitmq_side() {
  const std::string ours = "twinbox_bench.ours";
  auto plain = std::make_shared<PlainPublisher>("twinbox_bench.plain");
  auto cleaner = std::make_shared<PlainPublisher>(ours);
  return {[=](int count) { return plain->publish(count); }, [=] { cleaner->purge(); },
          rabbitmq_sink(std::make_shared<RabbitPublisher>(
              RabbitConnection{.url = broker_setting("TWINBOX_TEST_RABBITMQ")},
              RabbitSinkOptions{.routing_key = ours}))};
}

}  // namespace twinbox::bench
