#include "daemon/store/health.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "daemon/config/secrets.hpp"
#include "daemon/http/json.hpp"
#include <twinbox/database.hpp>
#include <twinbox/health.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

/// 200, or 503 for probes. Store names and database errors are only shown to the read role; other
/// callers get only the status.
HttpResponse ready(const Stores& stores, WriteMonitor& writes, bool may_read) {
  writes.watch();
  bool good = true;
  json::array list;
  for (const Stores::ServedStore& entry : stores.all()) {
    const auto refusal = writes.refusal(*entry.store);
    good = good && !refusal;
    json::array reasons;
    if (refusal) reasons.push_back(json::string{*refusal});
    list.push_back(json::object{{"store", entry.store->name()},
                                {"status", refusal ? "not_ready" : "ready"},
                                {"reasons", std::move(reasons)}});
  }
  json::object out{{"status", good ? "ready" : "not_ready"}};
  if (may_read) out["stores"] = std::move(list);
  return answer(out, good ? 200 : 503);
}

struct Asked {
  const Stores& stores;
  WriteMonitor& writes;
  TimeLimits& limits;
  Milliseconds time;
  HealthThresholds thresholds;
};

/// A store that cannot accept writes is not queried, because it may not respond.
Health check(const Asked& asked, Store& store, BoxKind kind) {
  if (const auto refusal = asked.writes.refusal(store)) {
    return {.state = HealthState::unhealthy, .reasons = {*refusal}};
  }
  const TimeLimits::Limit limit{asked.limits, asked.time};
  const StopScope scope{limit.token()};
  try {
    return check_health(box_of(store, kind), asked.thresholds);
  } catch (const std::exception& error) {
    return {.state = HealthState::unhealthy, .reasons = {error.what()}};
  }
}

/// One check for all concurrent requests.
std::vector<HttpResponse> health(const Asked& asked, const Access& access,
                                 std::span<const HttpRequest> requests) {
  asked.writes.watch();
  HealthState worst = HealthState::healthy;
  json::array boxes;
  for (const Stores::ServedStore& entry : asked.stores.all()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (!serves(entry.boxes, kind)) continue;
      const Health health = check(asked, *entry.store, kind);
      worst = std::max(worst, health.state);
      json::array reasons;
      for (const std::string& reason : health.reasons) {
        reasons.push_back(json::string{without_secrets(reason)});
      }
      boxes.push_back(json::object{{"store", entry.store->name()},
                                   {"box", view(to_string(kind))},
                                   {"status", view(to_string(health.state))},
                                   {"pending", health.pending},
                                   {"dead", health.dead},
                                   {"reasons", std::move(reasons)}});
    }
  }
  const int status = worst == HealthState::unhealthy ? 503 : 200;
  const json::object word{{"status", view(to_string(worst))}};
  json::object all = word;
  all["boxes"] = std::move(boxes);
  std::vector<HttpResponse> answers;
  for (const HttpRequest& request : requests) {
    answers.push_back(answer(access.caller(request).may_read ? all : word, status));
  }
  return answers;
}

}  // namespace

void add_health(HttpRouter& router, const Stores& stores, WriteMonitor& writes, TimeLimits& limits,
                const Config& config, const Access& access) {
  router.add({"GET", "/health/ready", RequiredAccess::nothing,
              [&stores, &writes, &access](const EndpointRequest& call) {
                return ready(stores, writes, access.caller(call.request).may_read);
              },
              true});
  const Asked asked{stores, writes, limits, config.limit.query_timeout, config.health};
  const auto check_all = [asked, &access](std::span<const HttpRequest> requests) {
    return health(asked, access, requests);
  };
  router.add({.method = "GET",
              .path = "/health",
              .need = RequiredAccess::nothing,
              .call =
                  [check_all](const EndpointRequest& call) {
                    return std::move(check_all({&call.request, 1})[0]);
                  },
              .pool = RequestPoolKind::health,
              .shared = [calls = std::make_shared<RequestBatcher>(check_all)](
                            const RequestTarget&) { return calls; }});
}

}  // namespace twinbox::app
