#include "daemon/daemon.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <iostream>
#include <mutex>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "daemon/config/config_safety.hpp"
#include "daemon/config/secrets.hpp"
#include "daemon/http/http_server.hpp"
#include "daemon/http/pending_responses.hpp"
#include "daemon/http/request_pool.hpp"
#include "daemon/http/response_text.hpp"
#include "daemon/intake/sources.hpp"
#include "daemon/log.hpp"
#include "daemon/service.hpp"
#include "daemon/shutdown_watchdog.hpp"
#include "daemon/stats/metrics.hpp"
#include "daemon/stats/tracer.hpp"
#include "daemon/store/store_opener.hpp"
#include "daemon/store/stores.hpp"
#include "daemon/store/time_limits.hpp"
#include "daemon/store/write_monitor.hpp"
#include "daemon/systemd.hpp"
#include "dashboard/bundle.hpp"
#include <twinbox/database.hpp>
#include <twinbox/error.hpp>

namespace twinbox::app {
namespace {

/// A request, with the configuration that it began under.
struct Request : RequestContext {
  std::shared_ptr<const Service> service;  // shared with the daemon until it reads another one
  EndpointLookup found;
  std::optional<TraceContext> parent;  ///< of the sender
  std::optional<TraceContext> trace;   ///< of this request, when it is traced

  [[nodiscard]] const Match* match() const { return std::get_if<Match>(&found); }
};

std::string show(const boost::asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port());
}

/// Sockets are file descriptors, and thousands of clients may be idle.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// The signals that the daemon waits for; blocked in every thread that is made afterwards.
sigset_t take_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

std::string monotonic_microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

class Daemon {
 public:
  Daemon(const ServeOptions& options, Config config)
      : options_(options),
        log_(config.log),
        stores_(config, log_.environment()),
        tracer_(config.tracing, log_.environment()),
        dispatchers_(
            stores_, log_.environment(),
            [this](BoxKind kind, DispatchObserver next) { return observer(kind, std::move(next)); },
            spans(), token_file(config).replace_extension(".dispatch_state")),
        dashboard_(stores_, throughput_, dispatchers_, log_.environment(), history_file(config)),
        service_(make_service(config, read_tokens(token_file(config)))),
        server_(config.server, config.limit, http_service(), log_.environment()),
        queue_limit_(static_cast<std::size_t>(config.server.queue_size)),
        request_pools_{RequestPool{pool("health", health_threads)},
                       RequestPool{intake_pool_options(config.server.intake_threads)},
                       RequestPool{pool("read", config.server.read_threads)},
                       RequestPool{pool("operate", operate_threads)},
                       RequestPool{pool("inline", config.server.inline_threads)}} {}

  ~Daemon() { dashboard_.stop(); }  // before the server, whose connections it wakes
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Until a signal ends it.
  void run(const sigset_t& signals) {
    sessions_.set(current()->config().access);
    warn(current()->config());
    make_first_token();  // before anything is touched: it may not be possible
    open_stores();
    dispatchers_.set(current()->config());
    dashboard_.set(current()->config().health);
    dashboard_.start();
    writes_.start();
    server_.start();
    sources_.set(current()->config());
    log_.write(LogLevel::info, "listening", {{"address", show(server_.endpoint())}});
    notify_systemd("READY=1");
    wait(signals);
  }

  /// For a stop, from now on. What is left beyond the times that requests and sinks have waits for
  /// a store that does not answer: a commit, a count for the dashboard.
  [[nodiscard]] ShutdownWatchdog shutdown_watchdog() {
    const std::shared_ptr<const Service> service = current();
    const Config& config = service->config();
    const Milliseconds usual = config.limit.shutdown_timeout +
                               std::chrono::ceil<Milliseconds>(config.dispatch.grace) +
                               std::chrono::seconds{15};
    Milliseconds longest{0};
    for (const SinkConfig& sink : config.sinks) {
      if (sink.kind == SinkConfig::Kind::command) longest = std::max(longest, sink.kill_after);
      if (sink.is_broker()) longest = std::max(longest, sink.timeout);
    }
    return {
        usual + longest, [this] {
          log_.write(
              LogLevel::warning, "shutdown_forced",
              {{"error", "a store does not respond; requests that waited for it were abandoned"}});
        }};
  }

  void stop() {
    notify_systemd("STOPPING=1");
    log_.write(LogLevel::info, "stopping", {});
    sources_.stop();
    // What waits for a receiver is repeated by who sent it, or by a dispatcher.
    pool_of(RequestPoolKind::inline_call).close();
    inline_stop_.request_stop();
    if (!server_.finish(current()->config().limit.shutdown_timeout)) end_calls();
    server_.stop(last_answers_time);
    calls_stop_.request_stop();
    for (RequestPool& pool : request_pools_) pool.close();  // no request is answered any more
    limits_.end_all();
    writes_.stop();
    dispatchers_.stop();
    dashboard_.stop();
    log_.write(LogLevel::info, "stopped", {});
  }

 private:
  /// For requests that wait for a store when their time is over: an answer each.
  void end_calls() {
    calls_stop_.request_stop();
    limits_.end_all();
    for (RequestPool& pool : request_pools_) pool.close();
    // What cannot be ended, such as a commit, goes on without its request.
    if (!server_.finish(last_answers_time)) pending_.respond_all(stopping());
  }

  std::shared_ptr<const Service> make_service(const Config& config, std::vector<Token> tokens) {
    const ServiceDependencies dependencies{
        .stores = stores_,
        .operation_runner = operation_runner_,
        .dispatchers = dispatchers_,
        .dashboard = dashboard_,
        .sessions = sessions_,
        .writes = writes_,
        .limits = limits_,
        .environment = log_.environment(),
        .spans = spans(),
        .observer = [this] { return observer(BoxKind::inbox, {}); },
        .metrics = [this] { return metrics_text(); },
        .stop = inline_stop_.get_token()};
    return std::make_shared<const Service>(config, dependencies, std::move(tokens));
  }

  [[nodiscard]] std::shared_ptr<const Service> current() const {
    const std::lock_guard lock{mutex_};
    return service_;
  }

  DispatchObserver observer(BoxKind kind, DispatchObserver next) {
    return metrics_.stats(kind).observer(throughput_.observer(kind, std::move(next)));
  }

  std::string metrics_text() {
    std::vector<RequestPool::Status> pools;
    for (const RequestPool& pool : request_pools_) pools.push_back(pool.status());
    return metrics_.text({.server = server_,
                          .boxes = dashboard_.stats_collector().latest(),
                          .pools = std::move(pools),
                          .writes = writes_,
                          .spans_sent = tracer_.sent(),
                          .spans_dropped = tracer_.dropped(),
                          .conflicts = log_.conflicts(),
                          .sources = sources_.status()});
  }

  /// Receives the spans of handlers; empty if tracing is off.
  std::function<void(const HandlerSpan&)> spans() {
    if (!tracer_.enabled()) return {};
    return [this](const HandlerSpan& span) {
      if (!span.context.sampled()) return;
      tracer_.add({.context = span.context,
                   .parent = span.parent,
                   .name = "deliver " + span.message.topic.str(),
                   .kind = Span::Kind::consumer,
                   .started = span.started,
                   .took = span.took,
                   .attributes = {{"messaging.system", "twinbox"},
                                  {"messaging.destination.name", span.message.topic.str()},
                                  {"messaging.message.id", span.message.id.str()}},
                   .error = std::string{span.error}});
    };
  }

  HttpService http_service() {
    return {.begin = [this](HttpRequest& head) { return begin(head); },
            .handle =
                [this](const HttpService::Context& context, HttpRequest request,
                       HttpService::Answer answer) {
                  handle(std::static_pointer_cast<Request>(context), std::move(request),
                         std::move(answer));
                },
            .stream =
                [this](const HttpService::Context& context, const HttpRequest& request,
                       std::function<void()> wake) {
                  return listen(*static_cast<const Request*>(context.get()), request,
                                std::move(wake));
                },
            .done =
                [this](const HttpService::Context& context, const HttpRequest& head, int status,
                       std::size_t bytes, std::chrono::microseconds took) {
                  done(static_cast<const Request*>(context.get()), head, status, bytes, took);
                }};
  }

  HttpService::Begun begin(HttpRequest& head) {
    auto request = std::make_shared<Request>();
    request->service = current();
    if (!request->service->access().trusts_loopback()) head.loopback = false;
    request->found = request->service->router().find(head.method, head.target);
    if (tracer_.enabled()) begin_trace(*request, head);
    const Access& access = request->service->access();
    HttpService::Begun begun{request, access.refuse(head, request->found)};
    if (begun.refusal) return begun;
    begun.sender = access.actor(head);
    begun.refusal = refuse_at_head(*request->match(), head, begun.sender);
    if (begun.refusal) return begun;
    // A login or a probe: a request that needs no access has a small body.
    if (request->match()->endpoint->need == RequiredAccess::nothing) begun.max_body = 4096;
    return begun;
  }

  /// Refuses an unknown endpoint, route or store before its body is sent.
  std::optional<HttpResponse> refuse_at_head(const Match& match, const HttpRequest& head,
                                             const std::string& actor) {
    if (!match.endpoint->refuse) return {};
    try {
      return match.endpoint->refuse({head, match.target, actor});
    } catch (...) {
      return explain(match.endpoint->path, std::current_exception());
    }
  }

  void begin_trace(Request& request, const HttpRequest& head) {
    request.parent = TraceContext::parse(head.headers.find("traceparent").value_or(""),
                                         head.headers.find("tracestate").value_or(""));
    const Environment environment = log_.environment();
    request.trace =
        request.parent ? request.parent->child(environment) : TraceContext::start(environment);
  }

  void handle(std::shared_ptr<Request> context, HttpRequest request, HttpService::Answer answer) {
    // What is stored has this request as its parent.
    if (context->trace) request.headers.set("traceparent", context->trace->traceparent());
    request.sender = context->service->access().actor(request);
    const Endpoint& endpoint = *context->match()->endpoint;
    if (endpoint.quick) return answer(call(*context, request));
    answer = pending_.add(std::move(answer));
    const Store* store = store_of(*context);
    if (endpoint.shared) {
      if (auto calls = endpoint.shared(context->match()->target)) {
        return share(std::move(calls), endpoint, store, std::move(request), answer);
      }
    }
    RequestPool& pool = pool_of(kind_of(*context));
    RequestPool::Task task{.run = [this, context, request = std::move(request),
                                   answer] { answer(call(*context, request)); },
                           .drop = [answer] { answer(stopping()); },
                           .key = store};
    if (endpoint.reads_store) bound_reader(task, *context);
    if (!pool.submit(std::move(task))) answer(is_full(pool));
  }

  /// Null: there is only one, or it is not known before the body is read.
  [[nodiscard]] const Store* store_of(const Request& request) const {
    const Match& match = *request.match();
    if (!match.endpoint->store || kind_of(request) != RequestPoolKind::intake) return nullptr;
    return stores_.all().size() > 1 ? match.endpoint->store(match.target) : nullptr;
  }

  static RequestPoolKind kind_of(const Request& request) {
    const Match& match = *request.match();
    const bool calls = match.endpoint->calls_handler && match.endpoint->calls_handler(match.target);
    if (calls) return RequestPoolKind::inline_call;
    return match.endpoint->need == RequiredAccess::operate ? RequestPoolKind::operate
                                                           : match.endpoint->pool;
  }

  RequestPool& pool_of(RequestPoolKind kind) {
    return request_pools_.at(static_cast<std::size_t>(kind));
  }

  [[nodiscard]] RequestPool::Options pool(std::string name, int threads) const {
    return {.name = std::move(name),
            .threads = static_cast<std::size_t>(threads),
            .queue = queue_limit_};
  }

  /// A store that hangs leaves threads and room in the queue to the others.
  [[nodiscard]] RequestPool::Options intake_pool_options(int threads) const {
    RequestPool::Options options = pool("intake", threads);
    if (stores_.all().size() > 1) options.keys = stores_.all().size();
    return options;
  }

  /// Readers leave most of a store's connections to those who write, however slow their queries.
  void bound_reader(RequestPool::Task& task, const Request& request) {
    const std::string_view name = request.match()->target.find("store").value_or("");
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      const Store* store = stores_.find(name, kind);
      if (store == nullptr) continue;
      task.key = store;
      task.max_running = std::max<std::size_t>(1, store->definition().database.pool_size / 4);
      return;
    }
  }

  static HttpResponse stopping() {
    return busy("the daemon is stopping; repeat the request with the same id");
  }

  static HttpResponse is_full(const RequestPool& pool) {
    return busy("the " + pool.name() +
                " pool is full: all its threads are busy and server.queue_size requests are "
                "waiting; repeat the request later with the same id");
  }

  void share(std::shared_ptr<RequestBatcher> calls, const Endpoint& endpoint, const Store* store,
             HttpRequest request, const HttpService::Answer& answer) {
    RequestPool& pool = pool_of(endpoint.pool);
    switch (calls->add(std::move(request), answer, queue_limit_)) {
      case RequestBatcher::Added::full: pool.count_rejected(); return answer(is_full(pool));
      case RequestBatcher::Added::waits: return;
      case RequestBatcher::Added::needs_worker: break;
    }
    const auto work = [this, calls = std::move(calls), path = endpoint.path] {
      const StopScope until_stopped{calls_stop_.get_token(), StopScope::WhileAway::repeat};
      calls->work([&](const std::exception_ptr& error) { return explain(path, error); });
    };
    pool.submit_unbounded({.run = work, .drop = work, .key = store});
  }

  /// Null: it does not ask for events, or too many listen already.
  std::unique_ptr<EventStream> listen(const Request& context, const HttpRequest& request,
                                      std::function<void()> wake) {
    if (request.method != "GET" || context.match()->endpoint->path != "/v1/overview/stream")
      return nullptr;
    dashboard_.stats_collector().watch();
    // A token may have been taken back meanwhile.
    return dashboard_.feed().listen(
        context.service->access().actor(request), std::move(wake), [this, request] {
          return current()->access().still_allowed(request, RequiredAccess::read);
        });
  }

  HttpResponse call(const Request& context, const HttpRequest& request) {
    const Match& match = *context.match();
    std::optional<TraceScope> scope;
    if (context.trace) scope.emplace(*context.trace);
    std::optional<TimeLimits::Limit> limit;
    std::optional<StopScope> until_limit;
    if (match.endpoint->reads_store) {
      limit.emplace(limits_, context.service->config().limit.query_timeout);
      until_limit.emplace(limit->token());
    }
    try {
      return match.endpoint->call(
          {request, match.target, context.service->access().actor(request)});
    } catch (const DatabaseError& error) {
      if (limit && error.kind() == DatabaseError::Kind::cancelled) {
        return limit->passed() ? read_too_long(context) : stopping();
      }
      return explain(match.endpoint->path, std::current_exception());
    } catch (...) {
      return explain(match.endpoint->path, std::current_exception());
    }
  }

  HttpResponse read_too_long(const Request& context) {
    const Match& match = *context.match();
    const std::string store{match.target.find("store").value_or(stores_.all()[0].store->name())};
    const auto time = context.service->config().limit.query_timeout;
    log_.write(LogLevel::warning, "read_timed_out",
               {{"store", store},
                {"endpoint", match.endpoint->path},
                {"milliseconds", std::int64_t{time.count()}}});
    return problem(504, title_of(504),
                   "store " + store + ": the query was cancelled after limit.query_timeout (" +
                       std::to_string(time.count()) +
                       " ms); request less (a state, a topic, a smaller limit), check what blocks "
                       "the database, or raise limit.query_timeout");
  }

  HttpResponse explain(const std::string& path, const std::exception_ptr& thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const HttpProblem& refused) {
      return problem(refused.status(), title_of(refused.status()), refused.what());
    } catch (const DatabaseError& error) {
      log_.write(LogLevel::warning, "store_failed",
                 {{"endpoint", path}, {"kind", to_string(error.kind())}, {"error", error.what()}});
      if (calls_stop_.stop_requested()) return stopping();
      if (error.kind() == DatabaseError::Kind::invalid_request) {
        return problem(422, title_of(422),
                       "the database rejected this request; retrying it will not help");
      }
      return busy("the store is unavailable; repeat the request with the same id");
    } catch (const std::logic_error& error) {  // an argument that the library refused
      return problem(400, title_of(400), without_secrets(error.what()));
    } catch (const std::exception& error) {
      return failed(path, error.what());
    } catch (...) {
      return failed(path, "an exception that is not a std::exception was thrown");
    }
  }

  HttpResponse failed(const std::string& path, std::string_view error) {
    log_.write(LogLevel::error, "request_failed", {{"endpoint", path}, {"error", error}});
    return problem(500, title_of(500),
                   "internal error; see the event request_failed in the daemon's log");
  }

  void done(const Request* context, const HttpRequest& head, int status, std::size_t bytes,
            std::chrono::microseconds took) {
    const Match* match = context == nullptr ? nullptr : context->match();
    metrics_.count_request(match == nullptr ? "-" : match->endpoint->method,
                           match == nullptr ? "-" : match->endpoint->path, status, took);
    if (match != nullptr && context->trace && context->trace->sampled()) {
      tracer_.add({.context = *context->trace,
                   .parent = context->parent,
                   .name = match->endpoint->method + " " + match->endpoint->path,
                   .started = std::chrono::system_clock::now() - took,
                   .took = took,
                   .attributes = {{"http.request.method", head.method},
                                  {"http.route", match->endpoint->path},
                                  {"http.response.status_code", std::to_string(status)}},
                   .error = status < 500 ? "" : title_of(status)});
    }
    if (!log_.access()) return;
    log_.write(LogLevel::info, "request",
               {{"method", head.method.substr(0, 32)},
                {"target", logged_target(head.target)},
                {"status", std::int64_t{status}},
                {"bytes", static_cast<std::int64_t>(bytes)},
                {"microseconds", std::int64_t{took.count()}}});
  }

  /// A store that cannot be reached now is tried again with each request; the log names it. One
  /// that does not answer holds up the start for a while only.
  void open_stores() {
    for (const auto& [store, error] : opener_.open(stores_, current()->config().file)) {
      log_.write(LogLevel::warning, "store_unavailable",
                 {{"store", store->name()}, {"error", error}});
      dashboard_.stats_collector().mark_unreachable(*store, error);
      writes_.mark_unreachable(*store, error);
    }
  }

  void warn(const Config& config) {
    for (const ConfigProblem& one : config_warnings(config)) {
      log_.write(LogLevel::warning, "config_warning",
                 {{"where", one.where}, {"key", one.key}, {"warning", one.text}});
    }
  }

  void make_first_token() {
    const std::shared_ptr<const Service> former = current();
    const Config& config = former->config();
    const std::filesystem::path file = token_file(config);
    if (!read_tokens(file).empty()) return;
    const std::string token = make_token(file, "first", Role::admin);
    {
      const std::lock_guard lock{mutex_};
      service_ = make_service(config, read_tokens(file));
    }
    std::cout << "Operator token, shown once (its hash is in " << file.string() << "):\n  " << token
              << "\nPass it to the command line in TWINBOX_TOKEN, and over HTTP as "
                 "\"Authorization: Bearer <token>\".\n";
    if (config.dashboard.enabled && !dashboard_assets().empty()) {
      std::cout
          << "This link opens the dashboard and logs you in. It works once, for 15 minutes:\n  "
          << address(config) << "/#token=" << sessions_.make_code(token_hash(token)) << "\n";
    }
    std::cout << std::flush;
  }

  /// Where a browser on this machine finds the page. What follows a `#` stays in the browser.
  [[nodiscard]] std::string address(const Config& config) const {
    auto endpoint = server_.endpoint();
    if (endpoint.address().is_unspecified()) {
      endpoint.address(boost::asio::ip::address_v4::loopback());
    }
    return (config.server.tls_certificate.empty() ? "http://" : "https://") + show(endpoint);
  }

  void wait(const sigset_t& signals) {
    const auto watchdog = watchdog_interval();
    while (true) {
      int signal = 0;
      if (watchdog) {
        const auto seconds = std::chrono::floor<std::chrono::seconds>(*watchdog);
        const timespec time{seconds.count(), std::chrono::nanoseconds{*watchdog - seconds}.count()};
        signal = sigtimedwait(&signals, nullptr, &time);
        notify_systemd("WATCHDOG=1");
      } else {
        signal = sigwaitinfo(&signals, nullptr);
      }
      if (signal == SIGTERM || signal == SIGINT) return;
      if (signal == SIGHUP) reload();
    }
  }

  /// All of it, or nothing: a configuration that cannot be used changes nothing.
  void reload() {
    notify_systemd("RELOADING=1\nMONOTONIC_USEC=" + monotonic_microseconds());
    try {
      const Config former = current()->config();
      Config config = load_config(options_.config, process_variables());
      for (const std::string& key : keep_restart_only(config, former)) {
        log_.write(LogLevel::warning, "reload_needs_restart", {{"key", key}});
      }
      if (auto unsafe = unsafe_files(config); !unsafe.empty()) throw ConfigError{std::move(unsafe)};
      const std::vector<Token> tokens = read_tokens_again(token_file(config));
      auto service = make_service(config, tokens);
      auto tls = make_tls(config.server);
      dispatchers_.set(config);
      sources_.set(config);
      dashboard_.set(config.health);
      log_.set(config.log);
      server_.set_limit(config.limit);
      server_.set_tls(std::move(tls));
      {
        const std::lock_guard lock{mutex_};
        service_ = std::move(service);
      }
      sessions_.set(config.access);
      sessions_.keep_only(tokens);
      warn(config);
      log_.write(LogLevel::info, "reloaded", {});
    } catch (const std::exception& error) {
      log_.write(LogLevel::error, "reload_failed", {{"error", error.what()}});
    }
    notify_systemd("READY=1");
  }

  const ServeOptions options_;
  Log log_;
  Stores stores_;
  Metrics metrics_;
  Tracer tracer_;
  Throughput throughput_;
  Dispatchers dispatchers_;
  Sources sources_{stores_, log_.environment()};
  Dashboard dashboard_;
  WriteMonitor writes_{stores_, log_.environment()};
  TimeLimits limits_;
  StoreOpener opener_;
  std::stop_source inline_stop_;
  std::stop_source calls_stop_;  ///< of what requests wait for when their time is over
  PendingResponses pending_;
  OperationRunner operation_runner_{log_.environment(), [this](const Store& store, BoxKind kind) {
                                      dashboard_.stats_collector().refresh(store, kind);
                                    }};
  mutable std::mutex mutex_;
  Sessions sessions_;
  std::shared_ptr<const Service> service_;  // shared with the requests that are under way
  HttpServer server_;
  const std::size_t queue_limit_;
  static constexpr int health_threads = 2;
  static constexpr int operate_threads = 2;
  /// A server that is silent is given up within 500 ms.
  static constexpr Milliseconds last_answers_time{1500};
  std::array<RequestPool, request_pool_count>
      request_pools_;  // end before the server, to which their tasks answer
};

}  // namespace

int serve(const ServeOptions& options) {
  const Config config = load_config(options.config, process_variables());
  if (auto problems = check_config(config); !problems.empty()) {
    throw ConfigError{std::move(problems)};
  }
  const sigset_t signals = take_signals();
  raise_descriptor_limit();
  // Programs of the same user, such as those of command sinks, cannot read its memory or its
  // environment through /proc.
  prctl(PR_SET_DUMPABLE, 0);
  auto daemon = std::make_unique<Daemon>(options, config);
  daemon->run(signals);
  const ShutdownWatchdog shutdown_watchdog = daemon->shutdown_watchdog();
  daemon->stop();
  daemon.reset();
  return 0;
}

}  // namespace twinbox::app
