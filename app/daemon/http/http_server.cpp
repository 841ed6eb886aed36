#include "daemon/http/http_server.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <stdexcept>

#include "daemon/http/connection.hpp"

namespace twinbox::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

std::string way_out(const boost::system::error_code& error) {
  if (error == asio::error::address_in_use)
    return "; stop the program that uses this port, or choose another port";
  if (error == asio::error::access_denied)
    return "; choose a port above 1023, or grant this program CAP_NET_BIND_SERVICE";
  if (error == boost::system::errc::address_not_available)
    return "; choose an address of this machine, or 0.0.0.0 for all";
  return {};
}

}  // namespace

void use_certificate(asio::ssl::context& tls, const std::string& file) {
  boost::system::error_code error;
  tls.use_certificate_chain_file(file, error);
  if (error) {
    throw std::runtime_error(
        "certificate " + file + ": " + error.message() +
        "; expected a PEM file with the server's certificate and its intermediate certificates");
  }
}

void use_key(asio::ssl::context& tls, const std::string& file) {
  boost::system::error_code error;
  tls.use_private_key_file(file, asio::ssl::context::pem, error);
  if (error) {
    throw std::runtime_error("private key " + file + ": " + error.message() +
                             "; expected the PEM file with the key of the certificate");
  }
}

void use_client_ca(asio::ssl::context& tls, const std::string& file) {
  boost::system::error_code error;
  tls.load_verify_file(file, error);
  STACK_OF(X509_NAME)* names = error ? nullptr : SSL_load_client_CA_file(file.c_str());
  if (names == nullptr) {
    throw std::runtime_error("client CA " + file + ": " +
                             (error ? error.message() : "contains no certificate") +
                             "; expected a PEM file with the CAs of the clients' certificates");
  }
  SSL_CTX_set_client_CA_list(tls.native_handle(), names);  // CAs that client certificates may have
  tls.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  // Resuming a session fails without a session id context.
  constexpr unsigned char name[] = "twinbox";
  SSL_CTX_set_session_id_context(tls.native_handle(), name, sizeof name);
}

std::shared_ptr<asio::ssl::context> make_tls(const ServerConfig& config) {
  if (config.tls_certificate.empty()) return nullptr;
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                   asio::ssl::context::no_tlsv1_1);
  use_certificate(*tls, config.tls_certificate);
  use_key(*tls, config.tls_key);
  if (!config.client_ca.empty()) use_client_ca(*tls, config.client_ca);
  return tls;
}

asio::ip::tcp::endpoint parse_listen(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : listen.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) host = "0.0.0.0";
  asio::io_context io;
  asio::ip::tcp::resolver resolver{io};
  boost::system::error_code error;
  const auto found = resolver.resolve(host, port, asio::ip::tcp::resolver::passive, error);
  if (error || found.empty()) {
    throw std::runtime_error("server.listen: " + listen + " is not an address: " + error.message());
  }
  return found.begin()->endpoint();
}

bool BodyBudget::reserve(const std::string& sender, std::size_t bytes, std::size_t limit,
                         std::size_t share) {
  const std::lock_guard lock{mutex_};
  std::size_t& used_by_sender = used_by_[sender];
  if (used_ + bytes > limit || used_by_sender + bytes > share) return false;
  used_ += bytes;
  used_by_sender += bytes;
  return true;
}

void BodyBudget::release(const std::string& sender, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  used_ -= bytes;
  used_by_[sender] -= bytes;
}

std::size_t BodyBudget::used() const {
  const std::lock_guard lock{mutex_};
  return used_;
}

HttpServer::HttpServer(const ServerConfig& config, LimitConfig limit, HttpService service,
                       Environment environment)
    : service_(std::move(service)),
      environment_(std::move(environment)),
      thread_count_(config.io_threads),
      limit_(std::make_shared<const LimitConfig>(limit)),
      tls_(make_tls(config)),
      acceptor_(asio::make_strand(io_)),
      accept_retry_(acceptor_.get_executor()) {
  endpoint_ = parse_listen(config.listen);
  try {
    acceptor_.open(endpoint_.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address{true});
    acceptor_.bind(endpoint_);
    acceptor_.listen(4096);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("server.listen: cannot listen on " + config.listen + ": " +
                             error.code().message() + way_out(error.code()));
  }
  endpoint_ = acceptor_.local_endpoint();
}

HttpServer::~HttpServer() { stop(Milliseconds{0}); }

void HttpServer::start() {
  asio::post(acceptor_.get_executor(), [this] { accept(); });
  for (int i = 0; i < thread_count_; ++i) {
    threads_.emplace_back([this] { io_.run(); });
  }
}

bool HttpServer::finish(Milliseconds limit) {
  if (!stopping_.exchange(true)) {
    asio::post(acceptor_.get_executor(), [this] {
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      accept_retry_.cancel();
    });
  }
  std::vector<std::shared_ptr<OpenConnection>> waiting;
  std::unique_lock lock{mutex_};
  for (const auto& [sender, connections] : waiting_) {
    for (const auto& [ticket, connection] : connections) {
      if (auto open = connection.lock()) waiting.push_back(std::move(open));
    }
  }
  lock.unlock();
  for (const auto& connection : waiting) connection->close_if_waiting();
  waiting.clear();
  lock.lock();
  return changed_.wait_for(lock, limit, [this] { return connections_ == 0; });
}

void HttpServer::stop(Milliseconds limit) {
  finish(limit);
  io_.stop();
  threads_.clear();
}

std::size_t HttpServer::connections() const {
  const std::lock_guard lock{mutex_};
  return connections_;
}

void HttpServer::set_limit(const LimitConfig& limit) {
  auto next = std::make_shared<const LimitConfig>(limit);
  const std::lock_guard lock{mutex_};
  limit_ = std::move(next);
}

std::shared_ptr<const LimitConfig> HttpServer::limit() const {
  const std::lock_guard lock{mutex_};
  return limit_;
}

void HttpServer::set_tls(std::shared_ptr<asio::ssl::context> tls) {
  const std::lock_guard lock{mutex_};
  tls_ = std::move(tls);
}

std::shared_ptr<asio::ssl::context> HttpServer::tls() const {
  const std::lock_guard lock{mutex_};
  return tls_;
}

Instant HttpServer::now() const {
  if (const auto now = environment_.now()) return *now;
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

std::uint64_t HttpServer::add_waiting(const std::string& sender,
                                      const std::shared_ptr<OpenConnection>& connection) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t ticket = next_ticket_++;
  Waiting& waiting = waiting_[sender];
  waiting.emplace_hint(waiting.end(), ticket, connection);
  return ticket;
}

void HttpServer::remove_waiting(const std::string& sender, std::uint64_t ticket) {
  const std::lock_guard lock{mutex_};
  waiting_[sender].erase(ticket);
}

void HttpServer::add_connection() {
  const std::lock_guard lock{mutex_};
  ++connections_;
}

void HttpServer::remove_connection() {
  {
    const std::lock_guard lock{mutex_};
    --connections_;
  }
  changed_.notify_all();
}

void HttpServer::accept() {
  // Each connection has its own strand.
  acceptor_.async_accept(
      asio::make_strand(io_), [this](boost::system::error_code error, Socket socket) {
        if (stopping_ || error == asio::error::operation_aborted) return;
        if (!error) {
          take(std::move(socket));
          return accept();
        }
        // Usually out of file descriptors: make room and retry shortly.
        environment_.write(LogLevel::warning, "accept_failed", {{"error", error.message()}});
        evict_oldest();
        accept_retry_.expires_after(std::chrono::milliseconds{50});
        accept_retry_.async_wait([this](boost::system::error_code stopped) {
          if (!stopped) accept();
        });
      });
}

void HttpServer::take(Socket socket) {
  ++stats_.accepted;
  boost::system::error_code error;
  const Tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return;
  socket.set_option(Tcp::no_delay{true}, error);
  if (connections() >= limit()->connections && !evict_oldest()) {
    ++stats_.refused;
    return turn_away(std::move(socket));
  }
  const bool loopback = is_loopback(peer.address());
  if (const auto tls = this->tls()) {  // what it makes keeps what it needs of it
    std::make_shared<Connection<beast::ssl_stream<Socket>>>(*this, std::move(socket), loopback,
                                                            *tls)
        ->start();
  } else {
    std::make_shared<Connection<Socket>>(*this, std::move(socket), loopback)->start();
  }
}

/// Every connection is busy. Over TLS a response would cost a handshake, and a large number of
/// responses costs too much: then the connection is just closed.
void HttpServer::turn_away(Socket socket) {
  if (tls() || turned_away_ >= max_turned_away) return;
  ++turned_away_;
  using Stream = beast::basic_stream<Tcp, Socket::executor_type>;
  // Shared by its own steps.
  const std::shared_ptr<Stream> stream{new Stream{std::move(socket)}, [this](Stream* gone) {
                                         delete gone;
                                         --turned_away_;
                                       }};
  // Shared by the call and its end.
  const auto text = std::make_shared<const std::string>(
      response_text(busy("limit.connections is reached and no connection is idle; retry later"),
                    now(), ConnectionMode::close, false));
  stream->expires_after(std::chrono::seconds{2});
  asio::async_write(
      *stream, asio::buffer(*text), [stream, text](beast::error_code failed, std::size_t) {
        if (failed) return;
        // Closing with unread bytes would discard the response.
        beast::error_code ignored;
        stream->socket().shutdown(Tcp::socket::shutdown_send, ignored);
        auto waste = std::make_shared<std::array<char, 4096>>();  // shared by the call and its end
        stream->async_read_some(asio::buffer(*waste),
                                [stream, waste](beast::error_code, std::size_t) {});
      });
}

std::shared_ptr<OpenConnection> HttpServer::take_oldest(Waiting& waiting) {
  std::shared_ptr<OpenConnection> oldest;
  while (!waiting.empty() && !oldest) {
    oldest = waiting.begin()->second.lock();
    waiting.erase(waiting.begin());
  }
  return oldest;
}

bool HttpServer::evict_oldest() {
  std::shared_ptr<OpenConnection> oldest;
  {
    const std::lock_guard lock{mutex_};
    oldest = take_oldest(waiting_[""]);
    const auto largest = std::ranges::max_element(
        waiting_, {}, [](const auto& of_sender) { return of_sender.second.size(); });
    if (!oldest && largest->second.size() > share_of(limit_->connections)) {
      oldest = take_oldest(largest->second);
    }
  }
  if (!oldest) return false;
  ++stats_.evicted;
  oldest->evict();
  return true;
}

}  // namespace twinbox::app
