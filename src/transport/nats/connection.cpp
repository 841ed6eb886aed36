#include "transport/nats/connection.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

namespace twinbox::nats {
namespace {

using namespace std::chrono_literals;

constexpr const char* system_certificates = "/etc/ssl/certs/ca-certificates.crt";

std::int64_t milliseconds(Duration time) {
  return std::chrono::ceil<std::chrono::milliseconds>(time).count();
}

[[noreturn]] void refuse_url() {
  throw std::invalid_argument(
      "url: expected nats://user:password@host:4222, nats://token@host, or tls:// for TLS; several "
      "with commas between them");
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// `host`, `host:port`, `[::1]:port`.
Server server_of(std::string_view authority) {
  Server server{std::string{authority}, 4222};
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const std::string_view digits = authority.substr(colon + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), server.port);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) refuse_url();
    server.host = authority.substr(0, colon);
  }
  if (server.host.size() > 2 && server.host.front() == '[') {
    server.host = server.host.substr(1, server.host.size() - 2);
  }
  if (server.host.empty() || server.port < 1 || server.port > 65'535) refuse_url();
  return server;
}

std::string last_text(natsStatus status) {
  natsStatus of = NATS_OK;  // of the last call that left a text
  const char* text = nats_GetLastError(&of);
  return of != status || text == nullptr || *text == '\0' ? natsStatus_GetText(status) : text;
}

/// The listeners for errors, by a number that is passed to the library: it may call after the
/// connection has been destroyed.
struct ListenerRegistry {
  std::mutex mutex;
  std::map<std::uintptr_t, std::weak_ptr<Listener>> all;
  std::uintptr_t last = 0;
};

ListenerRegistry& listener_registry() {
  static auto* const listener_registry =
      new ListenerRegistry;  // for threads of the library that outlive `main`
  return *listener_registry;
}

void on_error(natsConnection*, natsSubscription*, natsStatus status, void* handle) {
  if (status != NATS_NOT_PERMITTED) return;
  std::shared_ptr<Listener> listener;
  {
    const std::scoped_lock lock{listener_registry().mutex};
    const auto found = listener_registry().all.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found != listener_registry().all.end()) listener = found->second.lock();
  }
  if (!listener) return;
  const std::string text = last_text(status);
  const std::size_t begin = text.find('"'), end = text.rfind('"');
  const bool named = begin != std::string::npos && end > begin;
  listener->refused(named ? text.substr(begin + 1, end - begin - 1) : "", text);
}

/// A listener lives until the library calls no more.
using ListenerPtr = std::shared_ptr<Listener>;

void on_message(natsConnection*, natsSubscription*, natsMsg* message, void* closure) {
  (*static_cast<ListenerPtr*>(closure))->receive(MessagePtr{message});
}

void on_complete(void* closure) {
  const std::unique_ptr<ListenerPtr> listener_ptr{static_cast<ListenerPtr*>(closure)};
  (*listener_ptr)->closed();
}

}  // namespace

Address Address::parse(const std::string& url) {
  Address address{{}, {}, url.starts_with("tls://")};
  const std::string scheme = address.tls ? "tls://" : "nats://";
  for (const std::string& one : split(url)) {
    if (!one.starts_with(scheme) || one.find_first_of(" \t\r\n") != std::string::npos) refuse_url();
    std::string_view authority = std::string_view{one}.substr(scheme.size());
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
      authority.remove_prefix(at + 1);
    }
    if (authority.ends_with('/')) authority.remove_suffix(1);
    if (authority.find('/') != std::string_view::npos) refuse_url();
    address.servers.push_back(server_of(authority));
    address.urls.push_back(one);
  }
  return address;
}

std::string Address::display_name() const {
  std::string text = tls ? "tls://" : "nats://";
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const Server& one = servers[i];
    if (i > 0) text += ',';
    text += one.host.find(':') == std::string::npos ? one.host : "[" + one.host + "]";
    text += ':' + std::to_string(one.port);
  }
  return text;
}

void check(const NatsConnection& options) {
  const Address address = Address::parse(options.url);
  if (!address.tls && !(options.ca_file + options.certificate_file + options.key_file).empty()) {
    throw std::invalid_argument("url: certificates need tls://, or they would not be used");
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
  if (!options.monitor_url.empty() && !options.monitor_url.starts_with("http://")) {
    throw std::invalid_argument("monitor_url: expected http://host:8222");
  }
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 200 && std::ranges::all_of(text, [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && c != 0x7F &&
           std::string_view{".*>/\\"}.find(c) == std::string_view::npos;
  });
}

bool is_subject(std::string_view text) noexcept {
  if (text.empty() || text.front() == '.' || text.back() == '.') return false;
  if (text.find("..") != std::string_view::npos) return false;
  return std::ranges::all_of(text, [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && c != 0x7F && c != '*' && c != '>';
  });
}

void Connection::Closer::operator()(natsConnection* connection) const noexcept {
  natsConnection_Close(connection);
  natsConnection_Destroy(connection);
}

Connection::ListenerRegistration::ListenerRegistration(const std::shared_ptr<Listener>& listener) {
  const std::scoped_lock lock{listener_registry().mutex};
  const std::uintptr_t number = ++listener_registry().last;
  listener_registry().all.emplace(number, listener);
  handle_ = reinterpret_cast<void*>(number);
}

Connection::ListenerRegistration::~ListenerRegistration() {
  const std::scoped_lock lock{listener_registry().mutex};
  listener_registry().all.erase(reinterpret_cast<std::uintptr_t>(handle_));
}

Connection::Connection(const NatsConnection& options, std::shared_ptr<Listener> listener)
    : registration_(listener) {
  const Address address = Address::parse(options.url);
  display_name_ = address.display_name();
  connect(options, address);
  jsCtx* context = nullptr;
  check(natsConnection_JetStream(&context, connection_.get(), nullptr), "JetStream");
  context_.reset(context);
  listen(std::move(listener));
}

Connection::~Connection() = default;

void Connection::check(natsStatus status, const std::string& what) const {
  if (status == NATS_OK) return;
  throw BrokerError(display_name_ + ": " + what + ": " + reason_of(status));
}

/// A server does not answer a request without permission, and reports it separately.
std::string Connection::reason_of(natsStatus status) const {
  std::string reason = last_text(status);
  const char* text = nullptr;
  if (status == NATS_TIMEOUT && connection_ != nullptr &&
      natsConnection_GetLastError(connection_.get(), &text) == NATS_NOT_PERMITTED &&
      text != nullptr) {
    reason.append(": ").append(text);
  }
  return reason;
}

void Connection::connect(const NatsConnection& options, const Address& address) {
  natsOptions* made = nullptr;
  check(natsOptions_Create(&made), "connecting");
  const Owned<natsOptions> all{made};
  std::vector<const char*> urls;
  for (const std::string& url : address.urls) urls.push_back(url.c_str());
  check(natsOptions_SetServers(made, urls.data(), static_cast<int>(urls.size())), "url");
  natsOptions_SetName(made, "twinbox");
  natsOptions_SetTimeout(made, milliseconds(options.connect_timeout));
  natsOptions_SetPingInterval(made, milliseconds(options.heartbeat));
  natsOptions_SetMaxPingsOut(made, 2);
  natsOptions_SetWriteDeadline(made, milliseconds(options.connect_timeout));
  // The library would keep messages published meanwhile for later; the outbox does that better.
  natsOptions_SetAllowReconnect(made, false);
  natsOptions_SetErrorHandler(made, on_error, registration_.handle());
  if (address.tls) {
    natsOptions_SetSecure(made, true);
    const std::string ca = options.ca_file.empty() ? system_certificates : options.ca_file;
    check(natsOptions_LoadCATrustedCertificates(made, ca.c_str()), "ca_file " + ca);
    if (!options.certificate_file.empty()) {
      check(natsOptions_LoadCertificatesChain(made, options.certificate_file.c_str(),
                                              options.key_file.c_str()),
            "certificate_file " + options.certificate_file + " and key_file " + options.key_file);
    }
  }
  if (!options.credentials_file.empty()) {
    check(natsOptions_SetUserCredentialsFromFiles(made, options.credentials_file.c_str(), nullptr),
          "credentials_file " + options.credentials_file);
  }
  natsConnection* connection = nullptr;
  check(natsConnection_Connect(&connection, made), "connecting");
  connection_.reset(connection);
}

void Connection::listen(std::shared_ptr<Listener> listener) {
  natsInbox* inbox = nullptr;
  check(natsInbox_Create(&inbox), "an inbox");
  inbox_ = std::string{inbox} + ".";
  natsInbox_Destroy(inbox);
  auto listener_ptr = std::make_unique<ListenerPtr>(std::move(listener));
  natsSubscription* subscription = nullptr;
  check(natsConnection_Subscribe(&subscription, connection_.get(), (inbox_ + ">").c_str(),
                                 on_message, listener_ptr.get()),
        "subscribing");
  subscription_.reset(subscription);
  natsSubscription_SetPendingLimits(subscription, -1, -1);
  const natsStatus status =
      natsSubscription_SetOnCompleteCB(subscription, on_complete, listener_ptr.get());
  // Lost meanwhile: the library may still be about to call, and does not report its last call.
  ListenerPtr* const forgotten = listener_ptr.release();
  if (status != NATS_OK) (*forgotten)->closed();
}

std::string Connection::last_error() const {
  const char* text = nullptr;
  const natsStatus status = natsConnection_GetLastError(connection_.get(), &text);
  if (text != nullptr && *text != '\0') return display_name_ + ": " + text;
  if (status != NATS_OK) return display_name_ + ": " + natsStatus_GetText(status);
  return display_name_ + ": the connection was lost";
}

natsStatus Connection::publish(natsMsg& message) {
  return natsConnection_PublishMsg(connection_.get(), &message);
}

natsStatus Connection::publish(const std::string& subject, const std::string& reply,
                               std::string_view body) {
  const auto size = static_cast<int>(body.size());
  if (reply.empty()) {
    return natsConnection_Publish(connection_.get(), subject.c_str(), body.data(), size);
  }
  return natsConnection_PublishRequest(connection_.get(), subject.c_str(), reply.c_str(),
                                       body.data(), size);
}

void Connection::flush(Duration limit) {
  check(natsConnection_FlushTimeout(connection_.get(),
                                    std::max<std::int64_t>(1, milliseconds(limit))),
        "waiting for the server");
}

void Connection::drain(Duration limit) noexcept {
  if (natsSubscription_DrainTimeout(subscription_.get(), milliseconds(limit)) == NATS_OK) {
    natsSubscription_WaitForDrainCompletion(subscription_.get(), milliseconds(limit));
  }
}

}  // namespace twinbox::nats
