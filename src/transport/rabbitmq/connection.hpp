// One connection to RabbitMQ with one channel. Used by one thread, except for stuck() and
// interrupt().
#pragma once

#include <amqp.h>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "twinbox/rabbitmq.hpp"

namespace twinbox::rabbitmq {

/// The broker has closed the channel because of a request.
class ChannelClosed : public BrokerError {
 public:
  ChannelClosed(int code, const std::string& text) : BrokerError(text), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// An address in its parts.
struct Address {
  std::string user, password, host, vhost;
  int port;
  bool tls;

  /// Throws std::invalid_argument.
  static Address parse(const std::string& url);
  /// Its name in errors and logs: without user and password.
  [[nodiscard]] std::string display_name() const;
};

/// Throws std::invalid_argument naming the option.
void check(const RabbitConnection& options);

amqp_bytes_t bytes_of(std::string_view text) noexcept;
std::string_view view_of(const amqp_bytes_t& bytes) noexcept;

/// A counter that another thread raises to wake the polling thread.
class WakeUp {
 public:
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  void raise() const noexcept;
  void clear() const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

class Connection {
 public:
  static constexpr amqp_channel_t channel = 1;

  /// Connects, logs in and opens the channel. A stop request interrupts it. Throws BrokerError.
  Connection(const RabbitConnection& options, std::stop_token stop);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] amqp_connection_state_t state() const noexcept { return state_; }
  [[nodiscard]] const std::string& display_name() const noexcept { return display_name_; }
  /// The broker's version; empty: it does not report one.
  [[nodiscard]] std::string version() const;
  /// After the broker has closed the channel. Throws BrokerError.
  void reopen_channel();

  /// Throw BrokerError, beginning with `what`, for any error.
  void check(const amqp_rpc_reply_t& reply, const std::string& what) const;
  void check(int status, const std::string& what) const;
  /// For calls that answer with a pointer.
  void check_last(const std::string& what) const;

  /// Waits for a message of the broker, for `wake`, or until `limit`.
  void wait(const WakeUp& wake, Duration limit) const;
  /// The next frame that has arrived; never waits. Throws BrokerError when the broker has gone or
  /// closes the channel or connection.
  std::optional<amqp_frame_t> next_frame();
  /// The next delivery that has arrived; other frames go to `other`.
  template <class Other>
  std::optional<amqp_envelope_t> next_delivery(Other&& other);

  /// While it is true, output is buffered, so that many messages share a packet.
  void set_cork(bool on) const noexcept;

  /// Closes it properly, if the broker answers in time.
  void close() noexcept;
  /// From any thread: whether output has been blocked for this long because the broker does not
  /// read.
  [[nodiscard]] bool stuck(Duration time) noexcept;
  /// From any thread: every call that waits for the broker fails now.
  void interrupt() noexcept;

 private:
  void open(const RabbitConnection& options, const Address& address);
  amqp_socket_t* make_socket(const RabbitConnection& options, const Address& address) const;
  [[nodiscard]] std::string explain(const amqp_rpc_reply_t& reply) const;
  void refuse_close(const amqp_frame_t& frame);

  std::string display_name_;
  amqp_connection_state_t state_;
  std::mutex mutex_;     ///< between interrupt and the end of the socket
  int descriptor_ = -1;  ///< guarded by it
  bool interrupted_ = false;
  Duration poll_limit_;
};

template <class Other>
std::optional<amqp_envelope_t> Connection::next_delivery(Other&& other) {
  while (true) {
    amqp_maybe_release_buffers(state_);
    amqp_envelope_t envelope;
    const timeval none{};
    const amqp_rpc_reply_t reply = amqp_consume_message(state_, &envelope, &none, 0);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return envelope;
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
      if (reply.library_error == AMQP_STATUS_TIMEOUT) return {};
      if (reply.library_error == AMQP_STATUS_UNEXPECTED_STATE) {
        if (const auto frame = next_frame()) other(*frame);
        continue;
      }
    }
    check(reply, "reading");
  }
}

}  // namespace twinbox::rabbitmq
