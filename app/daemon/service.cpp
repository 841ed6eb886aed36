#include "daemon/service.hpp"

#include "daemon/health.hpp"
#include "daemon/http_server.hpp"
#include "daemon/login.hpp"
#include "daemon/openapi.hpp"
#include "daemon/pages.hpp"
#include "daemon/safety.hpp"
#include "daemon/secrets.hpp"

namespace twinbox::app {

Service::Service(Config config, const Surroundings& surroundings, std::vector<Token> tokens)
    : config_(std::move(config)), access_(config_, std::move(tokens), surroundings.sessions) {
  router_.add({"GET", "/health/live", Need::nothing,
               [](const Call&) { return json_answer(200, R"({"status":"live"})"); }, true});
  router_.add(
      {.method = "GET",
       .path = "/metrics",
       .need = Need::read,
       .call =
           [metrics = surroundings.metrics](const Call&) {
             return HttpResponse{
                 200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, metrics()};
           },
       .lane = LaneKind::health});
  router_.add({"GET", "/openapi.json", Need::nothing,
               [](const Call&) { return json_answer(200, std::string{openapi_json}); }, true});
  add_pages(router_, dashboard_assets(), config_.dashboard.enabled);
  add_login(router_, access_, surroundings.environment);
  SinkMaker sinks{config_, surroundings.stores, surroundings.environment, surroundings.spans};
  add_intakes(router_, config_, surroundings.stores, sinks,
              {.observer = surroundings.observer,
               .held = [&dispatching = surroundings.dispatching](
                           const std::string& store,
                           const std::string& topic) { return dispatching.holds(store, topic); },
               .stop = surroundings.stop},
              surroundings.environment);
  add_control(router_, surroundings.dispatching);
  surroundings.dashboard.add_to(router_);
  add_health(router_, surroundings.stores, surroundings.writes, surroundings.limits, config_,
             access_);
  add_operations(router_, surroundings.stores, surroundings.acts, config_,
                 [&dashboard = surroundings.dashboard](const Store& store, BoxKind kind) {
                   dashboard.census().look_again(store, kind);
                 });
}

namespace {

void make_all(const Config& config) {
  const Stores stores{config, {}};
  ActRunner acts{{}};
  Dispatching dispatching{stores, {}, [](BoxKind, DispatchObserver next) { return next; }};
  Pulse pulse;
  Dashboard dashboard{stores, pulse, dispatching, {}};
  Sessions sessions;
  WriteMonitor writes{stores, {}};
  TimeLimits limits;
  const Service service{config,
                        {.stores = stores,
                         .acts = acts,
                         .dispatching = dispatching,
                         .dashboard = dashboard,
                         .sessions = sessions,
                         .writes = writes,
                         .limits = limits,
                         .environment = {},
                         .spans = {},
                         .observer = [] { return DispatchObserver{}; },
                         .metrics = [] { return std::string{}; }},
                        {}};
  SinkMaker sinks{config, stores, {}};
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
      const auto place = config.places.find(key);
      const std::string file = config.file.empty() ? "configuration" : config.file.string();
      problems.push_back({place == config.places.end() ? file : place->second, key,
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
