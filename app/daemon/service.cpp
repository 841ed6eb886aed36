#include "daemon/service.hpp"

#include "daemon/intakes.hpp"

namespace twinbox::app {

Service::Service(Config config, const Surroundings& surroundings, std::vector<Token> tokens)
    : config_(std::move(config)), access_(config_, std::move(tokens)) {
  router_.add({"GET", "/health/live", Need::nothing,
               [](const Call&) { return json_answer(200, R"({"status":"live"})"); }, true});
  router_.add({"GET", "/metrics", Need::read, [metrics = surroundings.metrics](const Call&) {
                 return HttpResponse{200,
                                     {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                                     metrics()};
               }});
  add_intakes(router_, config_, surroundings.stores, surroundings.environment);
  add_operations(router_, surroundings.stores, surroundings.operations, config_.health);
}

}  // namespace twinbox::app
