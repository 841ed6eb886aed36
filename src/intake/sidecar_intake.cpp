#include <stdexcept>
#include <utility>

#include "core/json.hpp"
#include "intake/event_request.hpp"
#include "twinbox/intake.hpp"

namespace twinbox {
namespace {

constexpr std::string_view list_path = "/dapr/subscribe";

void append_member(std::string& json, std::string_view name, std::string_view value) {
  json += json.ends_with('{') ? "" : ",";
  append_json_string(json, name);
  json += ':';
  append_json_string(json, value);
}

HttpResponse status_response(std::string_view status) {
  std::string body = "{";
  append_member(body, "status", status);
  return json_response(200, body + "}");
}

}  // namespace

SidecarIntake::SidecarIntake(std::vector<Subscription> subscriptions, IntakeOptions options)
    : options_(std::move(options)) {
  for (Subscription& one : subscriptions) {
    const std::string route = one.route;
    if (!route.starts_with('/') || route.find('?') != std::string::npos || route == list_path) {
      throw std::invalid_argument("subscription to '" + one.topic + "': its route '" + route +
                                  "' must be a path of its own, such as /sidecar/orders");
    }
    if (!by_route_.try_emplace(route, std::move(one)).second) {
      throw std::invalid_argument("two subscriptions have the route '" + route + "'");
    }
  }
}

HttpResponse SidecarIntake::handle(const HttpRequest& request) const {
  const std::string_view target = request.target;
  const std::string_view path = target.substr(0, target.find('?'));
  return response_or_problem(options_, "accept", [&] {
    if (path == list_path) {
      if (request.method == "GET" || request.method == "HEAD") return list();
      HttpResponse answer = problem(405, "Method Not Allowed", "only GET and HEAD are taken here");
      answer.headers.add("Allow", "GET, HEAD");
      return answer;
    }
    const auto found = by_route_.find(path);
    if (found == by_route_.end()) throw RequestError(404, "there is no subscription at this path");
    if (request.method != "POST") throw RequestError(405, "only POST is taken here");
    return deliver(found->second, request);
  });
}

HttpResponse SidecarIntake::list() const {
  std::string body = "[";
  for (const auto& [route, one] : by_route_) {
    std::string item = "{";
    append_member(item, "pubsubname", one.pubsub);
    append_member(item, "topic", one.topic);
    append_member(item, "route", route);
    body += (body.size() > 1 ? "," : "") + item + "}";
  }
  return json_response(200, body + "]");
}

HttpResponse SidecarIntake::deliver(const Subscription& to, const HttpRequest& request) const {
  const HttpResponse answer = response_or_problem(options_, "accept", [&] {
    require_post(request, options_);
    Arrival arrival = arrival_of(one_event(request, options_), request, options_);
    arrival.topic = to.stored ? *to.stored : Topic{to.topic};
    return to.take(arrival);
  });
  if (answer.status < 300) return status_response("SUCCESS");
  if (answer.status >= 500) return status_response("RETRY");
  // An error of the event itself is permanent. Everything else can be configured.
  const bool final = answer.status == 400 || answer.status == 422;
  options_.environment.write(
      LogLevel::warning, final ? "sidecar_drop" : "sidecar_retry",
      {{"pubsub", to.pubsub}, {"topic", to.topic}, {"status", std::int64_t{answer.status}}});
  return status_response(final ? "DROP" : "RETRY");
}

}  // namespace twinbox
