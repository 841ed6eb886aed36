// The HTTP server: sockets are asynchronous, a slow client costs a socket and not a thread.
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

/// What the owner of the server keeps of one request while it is under way.
struct RequestContext {
  virtual ~RequestContext() = default;
};

/// An answer that goes on for as long as its client listens: server-sent events.
class EventStream {
 public:
  virtual ~EventStream() = default;
  /// What is new, to be sent now; an empty text: nothing. Empty: it is over.
  virtual std::optional<std::string> next() = 0;
};

/// What the server asks of its owner. The calls come from its own threads and must not block.
struct HttpService {
  using Context = std::shared_ptr<RequestContext>;  // shared by the connection and who answers
  using Answer = std::function<void(HttpResponse)>;

  struct Begun {
    Context context = {};
    std::optional<HttpResponse> refusal = {};  ///< sent without reading the body
    std::string sender = {};                   ///< the name of its token; empty: it brings none
    std::size_t max_body = SIZE_MAX;           ///< bytes, where less than limit.body_bytes will do
  };
  /// The head of a request is there, its body not yet. May take `head.loopback` back.
  std::function<Begun(HttpRequest& head)> begin;
  /// `answer` is called exactly once, from any thread.
  std::function<void(const Context& context, HttpRequest request, Answer answer)> handle;
  /// Asked before `handle`. Null: an ordinary request. `wake` may be called from any thread,
  /// whenever the stream has something new, for as long as the stream lives.
  std::function<std::unique_ptr<EventStream>(const Context& context, const HttpRequest& request,
                                             std::function<void()> wake)>
      stream;
  /// Every answer that is sent, refusals of the server itself among them: they have no context.
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

/// How many bytes of bodies are held at once, by all senders and by each. Thread-safe.
class BodyBudget {
 public:
  /// False: they would be more than `limit`, or those of this sender more than `share`.
  [[nodiscard]] bool reserve(const std::string& sender, std::size_t bytes, std::size_t limit,
                             std::size_t share);
  void release(const std::string& sender, std::size_t bytes);
  [[nodiscard]] std::size_t used() const;

 private:
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<std::string, std::size_t> used_by_;
};

/// A connection as the server sees it.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  /// Closes it unless a request is under way by then; from any thread.
  virtual void close_if_waiting() = 0;
  /// Closes it if it may still make room for another; from any thread.
  virtual void evict() = 0;
};

class HttpServer {
 public:
  using Tcp = boost::asio::ip::tcp;
  /// Of a known type, strand and all: to find that out at run time costs much with each step.
  using Socket = Tcp::socket::rebind_executor<
      boost::asio::strand<boost::asio::io_context::executor_type>>::other;

  /// Listens at once. Throws std::runtime_error that names the address or the certificate file.
  HttpServer(const ServerConfig& config, LimitConfig limit, HttpService service,
             Environment environment);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void start();
  /// Accepts nothing more and waits until the requests that are under way have been answered, for
  /// `limit` at most. False: some have not.
  bool finish(Milliseconds limit);
  /// The same, and ends what is left.
  void stop(Milliseconds limit);

  [[nodiscard]] Tcp::endpoint endpoint() const { return endpoint_; }
  [[nodiscard]] const HttpServerStats& stats() const noexcept { return stats_; }
  [[nodiscard]] std::size_t connections() const;
  /// Bytes of bodies that are held now.
  [[nodiscard]] std::size_t body_bytes(bool known) const {
    return known ? known_.used() : anonymous_.used();
  }

  /// For requests from now on.
  void set_limit(const LimitConfig& limit);
  /// For connections from now on; null where it was null.
  void set_tls(std::shared_ptr<boost::asio::ssl::context> tls);

  // For its connections.
  [[nodiscard]] std::shared_ptr<const LimitConfig> limit() const;
  [[nodiscard]] const HttpService& service() const noexcept { return service_; }
  [[nodiscard]] HttpServerStats& stats() noexcept { return stats_; }
  [[nodiscard]] bool stopping() const noexcept { return stopping_; }
  [[nodiscard]] Instant now() const;
  /// A connection that waits for its client may be closed for a new one. The oldest goes first of
  /// those without a `sender`, which wait for a request or for a caller without a token. When there
  /// is none, it is the oldest of a sender that holds more than its share.
  std::uint64_t add_waiting(const std::string& sender,
                            const std::shared_ptr<OpenConnection>& connection);
  void remove_waiting(const std::string& sender, std::uint64_t ticket);
  void add_connection();
  void remove_connection();
  /// Those without a token have a budget of their own: they cannot use up what the others need.
  [[nodiscard]] BodyBudget& known() noexcept { return known_; }
  /// No token may have more of it while others need some.
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
  std::atomic<int> turned_away_{0};  ///< connections that are being told that there is no room

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const LimitConfig> limit_;
  std::shared_ptr<boost::asio::ssl::context> tls_;  ///< shared by the connection that it makes
  std::size_t connections_ = 0;
  std::uint64_t next_ticket_ = 1;
  std::map<std::string, Waiting> waiting_;  // by sender

  // Below what connections use: those that are left end with it.
  boost::asio::io_context io_;
  Tcp::acceptor acceptor_;
  boost::asio::steady_timer accept_retry_;  ///< after an accept that failed
  Tcp::endpoint endpoint_;
  std::vector<std::jthread> threads_;
};

/// PEM files; the key belongs to the certificate that is there already. With a client CA, a peer
/// must show a certificate by it. All throw std::runtime_error that names the file.
void use_certificate(boost::asio::ssl::context& tls, const std::string& file);
void use_key(boost::asio::ssl::context& tls, const std::string& file);
void use_client_ca(boost::asio::ssl::context& tls, const std::string& file);
/// Reads the files of `config`; null without a certificate. Throws as they do.
std::shared_ptr<boost::asio::ssl::context> make_tls(const ServerConfig& config);

/// `host:port` or `[v6]:port`; a name is resolved. Throws std::runtime_error.
boost::asio::ip::tcp::endpoint parse_listen(const std::string& listen);

}  // namespace twinbox::app
