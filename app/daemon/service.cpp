#include "daemon/service.hpp"

#include "daemon/access/login.hpp"
#include "daemon/config/config_safety.hpp"
#include "daemon/config/owned_sources.hpp"
#include "daemon/config/secrets.hpp"
#include "daemon/dashboard/dashboard_files.hpp"
#include "daemon/http/http_server.hpp"
#include "daemon/http/openapi.hpp"
#include "daemon/store/health.hpp"

namespace twinbox::app {

Service::Service(Config config, const ServiceDependencies& dependencies,
                 const std::vector<Token>& tokens)
    : config_(std::move(config)), access_(config_, tokens, dependencies.sessions) {
  router_.add({"GET", "/health/live", RequiredAccess::nothing,
               [](const EndpointRequest&) { return json_response(200, R"({"status":"live"})"); },
               true});
  router_.add(
      {.method = "GET",
       .path = "/metrics",
       .need = RequiredAccess::read,
       .call =
           [metrics = dependencies.metrics](const EndpointRequest&) {
             return HttpResponse{
                 200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, metrics()};
           },
       .pool = RequestPoolKind::health});
  router_.add({"GET", "/openapi.json", RequiredAccess::nothing,
               [](const EndpointRequest&) { return json_response(200, std::string{openapi_json}); },
               true});
  add_dashboard_files(router_, dashboard_assets(), config_.dashboard.enabled);
  add_login(router_, access_, dependencies.environment);
  SinkFactory sinks{config_, dependencies.stores, dependencies.environment, dependencies.spans};
  add_intakes(router_, config_, dependencies.stores, sinks,
              {.observer = dependencies.observer,
               .switched_off =
                   [&dispatchers = dependencies.dispatchers](const std::string& store,
                                                             const std::string& topic) {
                     return dispatchers.is_switched_off(store, topic);
                   },
               .stop = dependencies.stop},
              relayed_senders(config_, tokens), dependencies.environment);
  add_dispatch_control(router_, dependencies.dispatchers);
  dependencies.dashboard.add_to(router_);
  add_health(router_, dependencies.stores, dependencies.writes, dependencies.limits, config_,
             access_);
  add_operations(router_, dependencies.stores, dependencies.operation_runner, config_,
                 [&dashboard = dependencies.dashboard](const Store& store, BoxKind kind) {
                   dashboard.stats_collector().refresh(store, kind);
                 });
}

namespace {

void make_all(const Config& config) {
  const Stores stores{config, {}};
  OperationRunner operation_runner{{}};
  Dispatchers dispatchers{stores, {}, [](BoxKind, DispatchObserver next) { return next; }};
  Throughput throughput;
  Dashboard dashboard{stores, throughput, dispatchers, {}};
  Sessions sessions;
  WriteMonitor writes{stores, {}};
  TimeLimits limits;
  const Service service{config,
                        {.stores = stores,
                         .operation_runner = operation_runner,
                         .dispatchers = dispatchers,
                         .dashboard = dashboard,
                         .sessions = sessions,
                         .writes = writes,
                         .limits = limits,
                         .environment = {},
                         .spans = {},
                         .observer = [] { return DispatchObserver{}; },
                         .metrics = [] { return std::string{}; }},
                        {}};
  SinkFactory sinks{config, stores, {}};
  for (const Stores::Set& set : stores.sets()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      const Routes routes{sinks.routes(kind, set.stores->stores())};
    }
  }
}

}  // namespace

std::vector<ConfigProblem> check_config(const Config& config) {
  std::vector<ConfigProblem> problems;
  const auto attempt = [&](const std::string& key, const auto& make) {
    try {
      make();
    } catch (const std::exception& error) {
      const auto location = config.key_locations.find(key);
      const std::string file = config.file.empty() ? "configuration" : config.file.string();
      problems.push_back({location == config.key_locations.end() ? file : location->second, key,
                          without_secrets(error.what())});
    }
  };
  if (!config.server.tls_certificate.empty()) {
    boost::asio::ssl::context tls{boost::asio::ssl::context::tls_server};
    attempt("server.tls_certificate", [&] { use_certificate(tls, config.server.tls_certificate); });
    attempt("server.tls_key", [&] { use_key(tls, config.server.tls_key); });
    if (!config.server.client_ca.empty()) {
      attempt("server.client_ca", [&] { use_client_ca(tls, config.server.client_ca); });
    }
  }
  attempt("access.token_file", [&] {
    require_token_file(config);
    read_tokens(token_file(config));
  });
  attempt("configuration", [&] { make_all(config); });
  for (ConfigProblem& unsafe : unsafe_files(config)) problems.push_back(std::move(unsafe));
  return problems;
}

}  // namespace twinbox::app
