#include "transport/rabbitmq/connection.hpp"

#include <algorithm>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <cerrno>
#include <cstring>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace twinbox::rabbitmq {
namespace {

using namespace std::chrono_literals;

constexpr int frame_max = 131'072;
constexpr const char* system_certificates = "/etc/ssl/certs/ca-certificates.crt";
/// An answer to a request that needs no disk.
constexpr Duration answer_timeout = 10s;

timeval timeval_of(Duration time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  timeval value{};
  value.tv_sec = seconds.count();
  value.tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(time - seconds).count();
  return value;
}

std::string close_text(int code, const amqp_bytes_t& text) {
  return std::to_string(code) + " " + std::string{view_of(text)};
}

}  // namespace

Address Address::parse(const std::string& url) {
  std::string copy = url;
  amqp_connection_info info;
  if (amqp_parse_url(copy.data(), &info) != AMQP_STATUS_OK || std::strlen(info.host) == 0) {
    throw std::invalid_argument(
        "url: expected amqp://user:password@host:5672/vhost, or amqps:// for TLS");
  }
  std::string vhost = info.vhost;
  if (vhost.empty()) vhost = "/";
  return {info.user, info.password, info.host, vhost, info.port, info.ssl != 0};
}

std::string Address::display_name() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return std::string{tls ? "amqps://" : "amqp://"} + name + ":" + std::to_string(port) +
         (vhost == "/" ? "" : "/" + vhost);
}

void check(const RabbitConnection& options) {
  const Address address = Address::parse(options.url);
  if (!address.tls && !(options.ca_file + options.certificate_file + options.key_file).empty()) {
    throw std::invalid_argument("url: certificates need amqps://, or they would not be used");
  }
  if (options.certificate_file.empty() != options.key_file.empty()) {
    throw std::invalid_argument("certificate_file and key_file are given together, or none");
  }
  if (options.connect_timeout <= Duration::zero()) {
    throw std::invalid_argument("connect_timeout must be longer than zero");
  }
  if (options.heartbeat < 1s || options.heartbeat > 1h) {
    throw std::invalid_argument("heartbeat must be 1 s to 1 h");
  }
  if (options.max_reconnect_delay <= Duration::zero()) {
    throw std::invalid_argument("max_reconnect_delay must be longer than zero");
  }
}

amqp_bytes_t bytes_of(std::string_view text) noexcept {
  return {text.size(), const_cast<char*>(text.data())};  // the library's type knows no const
}

std::string_view view_of(const amqp_bytes_t& bytes) noexcept {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

WakeUp::WakeUp() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

WakeUp::~WakeUp() { ::close(descriptor_); }

void WakeUp::raise() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
}

void WakeUp::clear() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(descriptor_, &count, sizeof count);
}

Connection::Connection(const RabbitConnection& options, std::stop_token stop)
    : state_(nullptr), poll_limit_(options.heartbeat / 3) {
  const Address address = Address::parse(options.url);
  display_name_ = address.display_name();
  state_ = amqp_new_connection();
  if (state_ == nullptr) throw std::bad_alloc();
  try {
    const std::stop_callback on_stop{stop, [this] { interrupt(); }};
    open(options, address);
  } catch (...) {
    amqp_destroy_connection(state_);
    throw;
  }
}

amqp_socket_t* Connection::make_socket(const RabbitConnection& options,
                                       const Address& address) const {
  if (!address.tls) return amqp_tcp_socket_new(state_);
  amqp_socket_t* socket = amqp_ssl_socket_new(state_);
  if (socket == nullptr) return nullptr;
  amqp_ssl_socket_set_verify_peer(socket, 1);
  amqp_ssl_socket_set_verify_hostname(socket, 1);
  amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
  const std::string ca = options.ca_file.empty() ? system_certificates : options.ca_file;
  if (amqp_ssl_socket_set_cacert(socket, ca.c_str()) != AMQP_STATUS_OK) {
    throw BrokerError(display_name_ + ": ca_file " + ca + " cannot be read as certificates");
  }
  if (!options.certificate_file.empty() &&
      amqp_ssl_socket_set_key(socket, options.certificate_file.c_str(), options.key_file.c_str()) !=
          AMQP_STATUS_OK) {
    throw BrokerError(display_name_ + ": certificate_file " + options.certificate_file +
                      " and key_file " + options.key_file +
                      " cannot be read, or do not belong together");
  }
  return socket;
}

void Connection::open(const RabbitConnection& options, const Address& address) {
  amqp_socket_t* socket = make_socket(options, address);
  if (socket == nullptr) throw std::bad_alloc();
  const timeval limit = timeval_of(options.connect_timeout);
  amqp_set_handshake_timeout(state_, &limit);
  const timeval answer = timeval_of(answer_timeout);
  amqp_set_rpc_timeout(state_, &answer);
  check(amqp_socket_open_noblock(socket, address.host.c_str(), address.port, &limit), "connecting");
  {
    const std::scoped_lock lock{mutex_};
    descriptor_ = amqp_get_sockfd(state_);
    if (interrupted_) throw BrokerError(display_name_ + ": stopped");
  }
  const auto heartbeat = std::chrono::ceil<std::chrono::seconds>(options.heartbeat).count();
  // The broker then reports a refused login, and a lack of memory or disk.
  amqp_table_entry_t capability[3] = {};
  const char* names[] = {"authentication_failure_close", "consumer_cancel_notify",
                         "connection.blocked"};
  for (std::size_t i = 0; i < std::size(capability); ++i) {
    capability[i].key = amqp_cstring_bytes(names[i]);
    capability[i].value.kind = AMQP_FIELD_KIND_BOOLEAN;
    capability[i].value.value.boolean = 1;
  }
  amqp_table_entry_t property{};
  property.key = amqp_cstring_bytes("capabilities");
  property.value.kind = AMQP_FIELD_KIND_TABLE;
  property.value.value.table = {static_cast<int>(std::size(capability)), capability};
  const amqp_table_t properties{1, &property};
  check(amqp_login_with_properties(state_, address.vhost.c_str(), 1, frame_max,
                                   static_cast<int>(heartbeat), &properties, AMQP_SASL_METHOD_PLAIN,
                                   address.user.c_str(), address.password.c_str()),
        "login to virtual host '" + address.vhost + "'");
  amqp_channel_open(state_, channel);
  check_last("opening a channel");
}

Connection::~Connection() {
  {
    const std::scoped_lock lock{mutex_};
    descriptor_ = -1;
  }
  amqp_destroy_connection(state_);
}

std::string Connection::version() const {
  const amqp_table_t* const properties = amqp_get_server_properties(state_);
  for (int i = 0; properties != nullptr && i < properties->num_entries; ++i) {
    const amqp_table_entry_t& entry = properties->entries[i];
    if (view_of(entry.key) == "version" && entry.value.kind == AMQP_FIELD_KIND_UTF8) {
      return std::string{view_of(entry.value.value.bytes)};
    }
  }
  return {};
}

void Connection::reopen_channel() {
  amqp_channel_close_ok_t closed{};
  check(amqp_send_method(state_, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &closed), "closing");
  amqp_channel_open(state_, channel);
  check_last("opening a channel");
}

bool Connection::stuck(Duration time) noexcept {
  const std::scoped_lock lock{mutex_};
  int left = 0;
  tcp_info info{};
  socklen_t size = sizeof info;
  return descriptor_ >= 0 && ::ioctl(descriptor_, SIOCOUTQ, &left) == 0 && left > 0 &&
         ::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         std::chrono::milliseconds{info.tcpi_last_data_sent} >= time;
}

void Connection::interrupt() noexcept {
  const std::scoped_lock lock{mutex_};
  interrupted_ = true;
  if (descriptor_ >= 0) ::shutdown(descriptor_, SHUT_RDWR);
}

void Connection::set_cork(bool on) const noexcept {
  const int value = on ? 1 : 0;
  ::setsockopt(amqp_get_sockfd(state_), IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

void Connection::close() noexcept {
  const timeval limit = timeval_of(2s);
  amqp_set_rpc_timeout(state_, &limit);
  amqp_connection_close(state_, AMQP_REPLY_SUCCESS);
}

std::string Connection::explain(const amqp_rpc_reply_t& reply) const {
  switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL: return "";
    case AMQP_RESPONSE_NONE: return "the broker has closed the connection";
    case AMQP_RESPONSE_LIBRARY_EXCEPTION: return amqp_error_string2(reply.library_error);
    case AMQP_RESPONSE_SERVER_EXCEPTION: break;
  }
  if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
    const auto* close = static_cast<const amqp_connection_close_t*>(reply.reply.decoded);
    return close_text(close->reply_code, close->reply_text);
  }
  if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
    const auto* close = static_cast<const amqp_channel_close_t*>(reply.reply.decoded);
    return close_text(close->reply_code, close->reply_text);
  }
  return "an answer that was not asked for";
}

void Connection::check(const amqp_rpc_reply_t& reply, const std::string& what) const {
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
  const std::string text = display_name_ + ": " + what + ": " + explain(reply);
  if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
      reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
    throw ChannelClosed(static_cast<const amqp_channel_close_t*>(reply.reply.decoded)->reply_code,
                        text);
  }
  throw BrokerError(text);
}

void Connection::check(int status, const std::string& what) const {
  if (status == AMQP_STATUS_OK) return;
  throw BrokerError(display_name_ + ": " + what + ": " + amqp_error_string2(status));
}

void Connection::check_last(const std::string& what) const {
  check(amqp_get_rpc_reply(state_), what);
}

void Connection::wait(const WakeUp& wake, Duration limit) const {
  pollfd polled[2] = {{amqp_get_sockfd(state_), POLLIN, 0}, {wake.descriptor(), POLLIN, 0}};
  // Woken in time for heartbeats, which next_frame sends and looks for.
  const auto time = std::chrono::ceil<std::chrono::milliseconds>(
      std::clamp<Duration>(limit, Duration::zero(), poll_limit_));
  ::poll(polled, 2, static_cast<int>(time.count()));
}

std::optional<amqp_frame_t> Connection::next_frame() {
  amqp_maybe_release_buffers(state_);
  amqp_frame_t frame;
  const timeval none{};
  const int status = amqp_simple_wait_frame_noblock(state_, &frame, &none);
  if (status == AMQP_STATUS_TIMEOUT) return {};
  check(status, "reading");
  refuse_close(frame);
  return frame;
}

/// After any close the connection is made again: that is rare, and simple.
void Connection::refuse_close(const amqp_frame_t& frame) {
  if (frame.frame_type != AMQP_FRAME_METHOD) return;
  if (frame.payload.method.id == AMQP_CHANNEL_CLOSE_METHOD) {
    const auto* close = static_cast<const amqp_channel_close_t*>(frame.payload.method.decoded);
    throw ChannelClosed(close->reply_code,
                        display_name_ + ": " + close_text(close->reply_code, close->reply_text));
  }
  if (frame.payload.method.id == AMQP_CONNECTION_CLOSE_METHOD) {
    const auto* close = static_cast<const amqp_connection_close_t*>(frame.payload.method.decoded);
    amqp_connection_close_ok_t answer{};
    amqp_send_method(state_, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &answer);
    throw BrokerError(display_name_ + ": " + close_text(close->reply_code, close->reply_text));
  }
}

}  // namespace twinbox::rabbitmq
