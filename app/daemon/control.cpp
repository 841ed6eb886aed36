#include "daemon/control.hpp"

#include <boost/json/array.hpp>

#include "daemon/json.hpp"
#include "daemon/parameters.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::array texts(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& text : list) out.push_back(json::string{text});
  return out;
}

HttpResponse show(const Dispatching& dispatching) {
  const Dispatching::View view = dispatching.view();
  json::array routes;
  for (const Dispatching::RouteView& route : view.routes) {
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

void add_control(Router& router, Dispatching& dispatching) {
  router.add({"GET", "/v1/dispatch", Need::read,
              [&dispatching](const Call&) { return show(dispatching); }});
  router.add({"POST", "/v1/dispatch/pause", Need::operate, [&dispatching](const Call& call) {
                const json::object body = parse_body(call.request, {"store", "topic"});
                dispatching.pause(text_member(body, "store"), text_member(body, "topic"));
                return show(dispatching);
              }});
  router.add({"POST", "/v1/dispatch/resume", Need::operate, [&dispatching](const Call& call) {
                const json::object body = parse_body(call.request, {"store", "topic"});
                dispatching.resume(text_member(body, "store"), text_member(body, "topic"));
                return show(dispatching);
              }});
  router.add({"POST", "/v1/routes/{name}/enable", Need::operate, [&dispatching](const Call& call) {
                dispatching.enable(call.target.segments[2]);
                return show(dispatching);
              }});
  router.add({"POST", "/v1/routes/{name}/disable", Need::operate, [&dispatching](const Call& call) {
                const json::object body = parse_body(call.request, {"reason"});
                const std::string reason = text_member(body, "reason");
                dispatching.disable(call.target.segments[2], reason.empty() ? "by hand" : reason);
                return show(dispatching);
              }});
}

}  // namespace twinbox::app
