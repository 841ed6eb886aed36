// The HTTP server. Sockets are asynchronous: a slow client costs a socket, not a thread.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/config/config.hpp"
#include "daemon/http/anonymous_bodies.hpp"
#include <twinbox/environment.hpp>
#include <twinbox/http.hpp>

namespace twinbox::app {

/// The owner's data of one request in flight.
struct RequestContext {
  virtual ~RequestContext() = default;
};

/// A response that continues while its client listens: server-sent events.
class EventStream {
 public:
  virtual ~EventStream() = default;
  /// The text to send now; an empty string: nothing. Empty: the stream has ended.
  virtual std::optional<std::string> next() = 0;
};

/// The interface of the server's owner. The server's threads call it, so it must not block.
struct HttpService {
  using Context = std::shared_ptr<RequestContext>;  // shared by the connection and the responder
  using Answer = std::function<void(HttpResponse)>;

  struct Begun {
    Context context = {};
    std::optional<HttpResponse> refusal = {};  ///< sent without reading the body
    std::string sender = {};                   ///< the name of its token; empty: it brings none
    std::size_t max_body = SIZE_MAX;           ///< bytes, where less than limit.body_bytes will do
  };
  /// Called when the head of a request has arrived, before its body. May reset `head.loopback`.
  std::function<Begun(HttpRequest& head)> begin;
  /// `answer` is called exactly once, from any thread.
  std::function<void(const Context& context, HttpRequest request, Answer answer)> handle;
  /// Called before `handle`. Null: an ordinary request. Any thread may call `wake` when the stream
  /// has something new, as long as the stream lives.
  std::function<std::unique_ptr<EventStream>(const Context& context, const HttpRequest& request,
                                             std::function<void()> wake)>
      stream;
  /// Called for every response, including rejections by the server itself, which have no context.
  std::function<void(const Context& context, const HttpRequest& head, int status, std::size_t bytes,
                     std::chrono::microseconds took)>
      done;
};

struct HttpServerStats {
  std::atomic<std::uint64_t> accepted{0};  ///< connections
  std::atomic<std::uint64_t> evicted{0};   ///< idle ones closed for new ones
  std::atomic<std::uint64_t> refused{0};   ///< connections beyond the limit
  std::atomic<std::uint64_t> timeouts{0};
  std::atomic<std::uint64_t> malformed{0};
};

/// Counts the bytes of bodies in memory, in total and per sender. Thread-safe.
class BodyBudget {
 public:
  /// False: the total would exceed `limit`, or this sender's bytes `share`.
  [[nodiscard]] bool reserve(const std::string& sender, std::size_t bytes, std::size_t limit,
                             std::size_t share);
  void release(const std::string& sender, std::size_t bytes);
  [[nodiscard]] std::size_t used() const;

 private:
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<std::string, std::size_t> used_by_;
};

/// The server's interface to a connection.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  /// Closes the connection unless a request is in flight; from any thread.
  virtual void close_if_waiting() = 0;
  /// Closes the connection if it is still evictable; from any thread.
  virtual void evict() = 0;
};

class HttpServer {
 public:
  using Tcp = boost::asio::ip::tcp;
  /// A concrete type including the strand: type erasure is expensive at each step.
  using Socket = Tcp::socket::rebind_executor<
      boost::asio::strand<boost::asio::io_context::executor_type>>::other;

  /// Starts listening. Throws std::runtime_error with the address or the certificate file.
  HttpServer(const ServerConfig& config, LimitConfig limit, HttpService service,
             Environment environment);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void start();
  /// Stops accepting and waits at most `limit` for the responses to requests in flight. False: some
  /// are missing.
  bool finish(Milliseconds limit);
  /// As finish(), then closes the remaining connections.
  void stop(Milliseconds limit);

  [[nodiscard]] Tcp::endpoint endpoint() const { return endpoint_; }
  [[nodiscard]] const HttpServerStats& stats() const noexcept { return stats_; }
  [[nodiscard]] std::size_t connections() const;
  /// Bytes of bodies in memory.
  [[nodiscard]] std::size_t body_bytes(bool known) const {
    return known ? known_.used() : anonymous_.used();
  }

  /// Applies to new requests.
  void set_limit(const LimitConfig& limit);
  /// Applies to new connections; null where it was null.
  void set_tls(std::shared_ptr<boost::asio::ssl::context> tls);

  // For its connections.
  [[nodiscard]] std::shared_ptr<const LimitConfig> limit() const;
  [[nodiscard]] const HttpService& service() const noexcept { return service_; }
  [[nodiscard]] HttpServerStats& stats() noexcept { return stats_; }
  [[nodiscard]] bool stopping() const noexcept { return stopping_; }
  [[nodiscard]] Instant now() const;
  /// A connection that waits for its client may be closed for a new one: first the oldest without a
  /// `sender`, which waits for a request or for a caller without a token, then the oldest of a
  /// sender that exceeds its share.
  std::uint64_t add_waiting(const std::string& sender,
                            const std::shared_ptr<OpenConnection>& connection);
  void remove_waiting(const std::string& sender, std::uint64_t ticket);
  void add_connection();
  void remove_connection();
  /// Callers without a token have a separate budget, so that they cannot exhaust that of the
  /// others.
  [[nodiscard]] BodyBudget& known() noexcept { return known_; }
  /// The share of one token while others need some.
  [[nodiscard]] static std::size_t share_of(std::size_t all) noexcept { return all / 2; }
  [[nodiscard]] AnonymousBodies& anonymous() noexcept { return anonymous_; }

 private:
  void accept();
  void take(Socket socket);
  void turn_away(Socket socket);
  [[nodiscard]] std::shared_ptr<boost::asio::ssl::context> tls() const;
  bool evict_oldest();

  using Waiting = std::map<std::uint64_t, std::weak_ptr<OpenConnection>>;  // by ticket
  static std::shared_ptr<OpenConnection> take_oldest(Waiting& waiting);

  HttpService service_;
  Environment environment_;
  int thread_count_;
  HttpServerStats stats_;
  std::atomic<bool> stopping_{false};
  BodyBudget known_;
  AnonymousBodies anonymous_;
  static constexpr int max_turned_away = 64;
  std::atomic<int> turned_away_{0};  ///< connections that are being rejected

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const LimitConfig> limit_;
  std::shared_ptr<boost::asio::ssl::context> tls_;  ///< shared with the connection
  std::size_t connections_ = 0;
  std::uint64_t next_ticket_ = 1;
  std::map<std::string, Waiting> waiting_;  // by sender

  // Declared after what connections use, so that the remaining ones end first.
  boost::asio::io_context io_;
  Tcp::acceptor acceptor_;
  boost::asio::steady_timer accept_retry_;  ///< after an accept that failed
  Tcp::endpoint endpoint_;
  std::vector<std::jthread> threads_;
};

/// Read PEM files; the key must match the certificate set before. With a client CA, clients need a
/// certificate of it. All throw std::runtime_error with the name of the file.
void use_certificate(boost::asio::ssl::context& tls, const std::string& file);
void use_key(boost::asio::ssl::context& tls, const std::string& file);
void use_client_ca(boost::asio::ssl::context& tls, const std::string& file);
/// Reads the files of `config`; null without a certificate. Throws like the functions above.
std::shared_ptr<boost::asio::ssl::context> make_tls(const ServerConfig& config);

/// `host:port` or `[v6]:port`; a name is resolved. Throws std::runtime_error.
boost::asio::ip::tcp::endpoint parse_listen(const std::string& listen);

}  // namespace twinbox::app
