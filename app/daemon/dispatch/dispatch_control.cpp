#include "daemon/dispatch/dispatch_control.hpp"

#include <boost/json/array.hpp>

#include "daemon/http/json.hpp"
#include "daemon/http/request_parameters.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::array texts(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& text : list) out.push_back(json::string{text});
  return out;
}

HttpResponse show(const Dispatchers& dispatchers) {
  const Dispatchers::View view = dispatchers.view();
  json::array routes;
  for (const Dispatchers::RouteView& route : view.routes) {
    routes.push_back(json::object{{"name", route.status.name},
                                  {"box", json::string_view{to_string(route.box)}},
                                  {"topic", route.status.pattern},
                                  {"enabled", route.status.enabled},
                                  {"reason", route.status.reason},
                                  {"done", route.status.done},
                                  {"retried", route.status.retried},
                                  {"dead", route.status.dead},
                                  {"postponed", route.status.postponed}});
  }
  return answer(json::object{{"paused", view.paused},
                             {"paused_stores", texts(view.paused_stores)},
                             {"paused_topics", texts(view.paused_topics)},
                             {"routes", std::move(routes)}});
}

}  // namespace

void add_dispatch_control(HttpRouter& router, Dispatchers& dispatchers) {
  router.add({"GET", "/v1/dispatch", RequiredAccess::read,
              [&dispatchers](const EndpointRequest&) { return show(dispatchers); }});
  router.add({"POST", "/v1/dispatch/pause", RequiredAccess::operate,
              [&dispatchers](const EndpointRequest& call) {
                const json::object body = parse_body(call.request, {"store", "topic"});
                dispatchers.pause(text_member(body, "store"), text_member(body, "topic"));
                return show(dispatchers);
              }});
  router.add({"POST", "/v1/dispatch/resume", RequiredAccess::operate,
              [&dispatchers](const EndpointRequest& call) {
                const json::object body = parse_body(call.request, {"store", "topic"});
                dispatchers.resume(text_member(body, "store"), text_member(body, "topic"));
                return show(dispatchers);
              }});
  router.add({"POST", "/v1/routes/{name}/enable", RequiredAccess::operate,
              [&dispatchers](const EndpointRequest& call) {
                dispatchers.enable(call.target.segments[2]);
                return show(dispatchers);
              }});
  router.add({"POST", "/v1/routes/{name}/disable", RequiredAccess::operate,
              [&dispatchers](const EndpointRequest& call) {
                const json::object body = parse_body(call.request, {"reason"});
                const std::string reason = text_member(body, "reason");
                dispatchers.disable(call.target.segments[2], reason.empty() ? "manually" : reason);
                return show(dispatchers);
              }});
}

}  // namespace twinbox::app
