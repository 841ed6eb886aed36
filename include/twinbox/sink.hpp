// Sinks: handlers that send a message to another system. docs/reference/sinks.md has the tables.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "twinbox/channel.hpp"
#include "twinbox/handler.hpp"
#include "twinbox/http.hpp"
#include "twinbox/inbox.hpp"

namespace twinbox {

/// Thrown by a sink whose receiver refuses all further messages (HTTP 410). It disables the route;
/// without a route it is a retry like any exception.
class ReceiverGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// No complete answer: not connected, refused, timed out, broken off, stopped. The text says which,
/// and never shows a body or the query of the address.
class HttpError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct HttpClientOptions {
  std::size_t per_host = 8;           ///< requests to one host and port at a time; others wait
  std::size_t idle_connections = 64;  ///< kept open for the next request
  Duration connect_timeout = std::chrono::seconds{10};
  /// Private networks that may be connected to: `127.0.0.1`, `10.0.0.0/8`, `fd00::/8`; `any` for
  /// all. Checked when a socket is opened, so that a host name cannot bypass it.
  std::vector<std::string> allow = {};
  std::string ca_file = {};  ///< empty: the system's certificates
  /// PEM files of this client, for receivers that require a certificate (mTLS). Without `key_file`
  /// the key is in `certificate_file`. Read for each new connection.
  std::string certificate_file = {};
  std::string key_file = {};
  /// `http://proxy:3128`; empty: none, whatever the environment says. The proxy then decides which
  /// addresses are reachable.
  std::string proxy = {};
  std::size_t max_response = 256 * 1024;  ///< bytes of an answer's body that are read

  /// Throws std::invalid_argument naming the option and the expected value.
  void check() const;
};

/// Persistent, shared connections. One thread does all input and output. Thread-safe.
class HttpClient {
 public:
  /// Throws as HttpClientOptions::check().
  explicit HttpClient(HttpClientOptions options = {});
  /// No request may be in progress.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Sends and waits for the answer; the request's target is an absolute address. Redirects are
  /// returned like any other answer. `timeout` begins when the request is sent. After a stop
  /// request, a request in progress has `grace` to be answered; a queued one is not sent. Throws
  /// HttpError; std::invalid_argument for an address or a header that cannot be sent.
  HttpResponse send(const HttpRequest& request, Duration timeout, std::stop_token stop = {},
                    Duration grace = {});

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// The format in which a message is sent.
enum class BodyFormat {
  automatic,   ///< binary for an envelope of a CloudEvent, raw for any other message
  raw,         ///< the payload unchanged, the message's attributes as `twinbox-…` headers
  binary,      ///< a CloudEvent: its data as the body, its attributes as `ce-…` headers
  structured,  ///< a CloudEvent: everything as one JSON document
};

struct HttpSinkOptions {
  std::string url;  ///< `http` or `https`, without a user or a fragment
  std::string method = "POST";
  HttpHeaders headers = {};  ///< with every request, such as Authorization
  BodyFormat form = BodyFormat::automatic;
  Duration timeout = std::chrono::seconds{30};
  /// Standard Webhooks (`whsec_…`, `whsk_…`): one signature per secret, so that you can rotate
  /// them.
  std::vector<std::string> secrets = {};
  std::set<int> done_on = {};                    ///< besides 2xx
  std::set<int> dead_on = {400, 413, 415, 422};  ///< failures that a retry cannot fix
  Duration max_retry_after =
      std::chrono::days{1};  ///< the longest delay that a receiver can request
  /// How long a request in progress may take after a stop request, so that a shutdown sends nothing
  /// twice; set it to the dispatcher's `grace`.
  Duration grace = std::chrono::seconds{10};

  /// Throws std::invalid_argument naming the option and the expected value.
  void check() const;
};

/// Sends each message over HTTP. Sinks that share a client share its connections; the client lives
/// as long as one of them. Throws as HttpSinkOptions::check().
MessageHandler http_sink(std::shared_ptr<HttpClient> client, HttpSinkOptions options,
                         Environment environment = {});

struct CommandSinkOptions {
  std::vector<std::string> command;  ///< the program (a path, or found by PATH) and its arguments
  Duration timeout = std::chrono::minutes{1};
  /// Between SIGTERM and SIGKILL, for the whole process group.
  Duration kill_after = std::chrono::seconds{5};
  std::string directory = {};  ///< the working directory; empty: that of this process
  /// In addition to PATH, HOME, LANG, TZ, TMPDIR and the message's own TWINBOX_…; no other variable
  /// is passed on.
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::set<int> dead_on = {65};  ///< exit codes; 0 is done, every other one a retry
};

/// Runs a program for each message, without a shell: payload on its standard input, attributes in
/// its environment, the end of its standard error as the error. Throws std::invalid_argument.
MessageHandler command_sink(CommandSinkOptions options);

/// Writes a log event `deliver` for each message, without its payload.
MessageHandler log_sink(Environment environment, LogLevel level = LogLevel::info);

struct InboxSinkOptions {
  /// The source of messages without one (`-`).
  Source source = Source{"outbox"};
};

/// Accepts each message into an inbox, which must outlive the sink. A message whose id the inbox
/// knows with other content becomes dead, `conflict`. `from` is the database of the messages: if it
/// is the inbox's own, the sink is a transactional handler.
HandlerCall inbox_sink(Inbox& inbox, const Database& from, InboxSinkOptions options = {});
/// Accepts each message on a channel; `channels` must outlive the sink.
MessageHandler channel_sink(Channels& channels, std::string channel, InboxSinkOptions options = {});

// Routes: which topics go to which sink.

struct Route {
  std::string name;
  TopicPattern pattern;
  HandlerCall sink;
  HandlerOptions options = {};  ///< retry policy, timeout …
  bool enabled = true;
};

/// Called from many threads at once; the calls must be short and must not throw.
struct RouteObserver {
  /// The sink has answered, or thrown (then `outcome` is the resulting retry).
  std::function<void(std::string_view route, const Message&, const Outcome&, Duration took)>
      delivered = {};
  std::function<void(std::string_view route, std::string_view reason)> disabled = {};
  std::function<void(std::string_view route)> enabled = {};
};

struct RouteStatus {
  std::string name;
  std::string pattern;
  bool enabled;
  std::string reason;  ///< why it is disabled
  std::uint64_t done;
  std::uint64_t retried;
  std::uint64_t dead;
  std::uint64_t postponed;  ///< by the sink, or because the route is disabled
};

/// The first route whose pattern matches takes the message. A disabled route keeps its topics: its
/// messages are postponed by a lease's time, without counting an attempt, until it is enabled. The
/// disabled state is in memory only, in this object. Thread-safe.
class Routes {
 public:
  /// Throws UsageError naming both routes when a name or a pattern is used twice, and the
  /// exceptions of HandlerEntry::check.
  explicit Routes(std::vector<Route> routes, RouteObserver observer = {},
                  Environment environment = {});
  ~Routes();
  Routes(Routes&&) noexcept;
  Routes& operator=(Routes&&) noexcept;

  /// For any number of dispatchers; they share ownership of what they need from this object.
  [[nodiscard]] Handlers handlers() const;

  /// Both throw UsageError when there is no such route; no change when it already has that state.
  void enable(std::string_view name);
  void disable(std::string_view name, std::string_view reason);

  [[nodiscard]] std::vector<RouteStatus> status() const;

 private:
  class RunningRoute;
  [[nodiscard]] RunningRoute& find_route(std::string_view name) const;

  std::vector<std::shared_ptr<RunningRoute>> routes_;  ///< shared with the handlers made of them
};

}  // namespace twinbox
