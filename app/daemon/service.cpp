#include "daemon/service.hpp"

#include "daemon/json.hpp"

namespace twinbox::app {
namespace {

HttpResponse enqueue(const Stores& stores, const Call& call) {
  Store* store = stores.find(call.target.find("store").value_or(""), BoxKind::outbox);
  if (store == nullptr) throw Refused(404, "there is no store of that name with an outbox");
  NewMessage message{.topic = Topic{call.target.segments[2]}, .payload = call.request.body};
  if (const auto type = call.request.headers.find("Content-Type")) {
    message.extras.content_type = std::string{*type};
  }
  const MessageId id = store->outbox().enqueue(message);
  return answer(boost::json::object{{"id", id.str()}}, 202);
}

}  // namespace

Service::Service(Config config, const Surroundings& surroundings, std::vector<Token> tokens)
    : config_(std::move(config)), access_(config_, std::move(tokens)) {
  router_.add({"GET", "/health/live", Need::nothing,
               [](const Call&) { return json_answer(200, R"({"status":"live"})"); }, true});
  router_.add({"GET", "/metrics", Need::read, [metrics = surroundings.metrics](const Call&) {
                 return HttpResponse{200,
                                     {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                                     metrics()};
               }});
  router_.add(
      {"POST", "/v1/outbox/{topic}", Need::send,
       [&stores = surroundings.stores](const Call& call) { return enqueue(stores, call); }});
  add_operations(router_, surroundings.stores, surroundings.operations, config_.health);
}

}  // namespace twinbox::app
