#include "daemon/intake/intakes.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "daemon/config/config_validation.hpp"
#include "daemon/config/owned_sources.hpp"
#include "daemon/http/request_parameters.hpp"
#include <twinbox/intake.hpp>
#include <twinbox/webhook.hpp>

namespace twinbox::app {
namespace {

IntakeOptions intake_options(const Config& config, SourceNames senders,
                             const Environment& environment) {
  SourceNames reserved = owned_sources(config);
  reserved.merge(relayed_sources(config));
  return {.max_body = config.limit.body_bytes,
          .max_events = config.intake.max_events,
          .keep_headers = config.intake.keep_headers,
          .retry_after = std::chrono::ceil<std::chrono::seconds>(config.intake.retry_after),
          .reserved_sources = std::move(reserved),
          .sender_sources = std::move(senders),
          .max_keyed_delay = std::chrono::ceil<std::chrono::seconds>(config.intake.max_keyed_delay),
          .environment = environment};
}

/// The inbox is opened at the first request. One arrival alone shares its commit with others.
AcceptCall accept_into(const Stores& stores, std::string name) {
  return [&stores, name = std::move(name)](std::span<const Arrival> arrivals) {
    Inbox& inbox = find_store(stores, name, BoxKind::inbox).inbox();
    if (arrivals.size() == 1) return std::vector{inbox.accept(arrivals[0])};
    return inbox.accept(arrivals);
  };
}

SignatureScheme scheme_of(const WebhookConfig& webhook) {
  if (webhook.scheme == "standard_webhooks") return StandardWebhooks{webhook.header_prefix};
  if (webhook.scheme == "ed25519") {
    Ed25519Signature scheme;
    if (!webhook.header.empty()) scheme.header = webhook.header;
    if (!webhook.timestamp_header.empty()) scheme.timestamp_header = webhook.timestamp_header;
    return scheme;
  }
  if (webhook.scheme != "hmac") return signature_scheme(webhook.scheme);
  return HmacSignature{
      .header = webhook.header,
      .hash = mac_hash(webhook.algorithm),
      .encoding = webhook.encoding == "base64" ? SignatureEncoding::base64 : SignatureEncoding::hex,
      .prefix = webhook.prefix,
      .timestamp_header = webhook.timestamp_header,
      .signature_field = webhook.signature_field,
      .timestamp_field = webhook.timestamp_field,
      .separator = webhook.separator.at(0),
      .signed_content = webhook.signed_content};
}

std::optional<ValueFrom> value_from(const std::string& text) {
  if (text.empty()) return {};
  return ValueFrom::parse(text);
}

WebhookEndpoint endpoint_of(const WebhookConfig& webhook, const Stores& stores) {
  try {
    return {.name = webhook.name,
            .scheme = scheme_of(webhook),
            .secrets = webhook.secrets,
            .accept = accept_into(stores, webhook.store),
            .id = value_from(webhook.id),
            .topic = value_from(webhook.topic),
            .source = value_from(webhook.source),
            .topic_prefix = webhook.topic_prefix,
            .tolerance = std::chrono::ceil<std::chrono::seconds>(webhook.tolerance),
            .handshake = handshake_of(webhook)};
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("webhook." + webhook.name + ": " + error.what());
  }
}

void add_webhooks(HttpRouter& router, const Config& config, const Stores& stores,
                  const IntakeOptions& options) {
  std::vector<WebhookEndpoint> endpoints;
  std::map<std::string, const Store*> stores_of;
  for (const WebhookConfig& webhook : config.webhooks) {
    endpoints.push_back(endpoint_of(webhook, stores));
    stores_of.emplace(webhook.name, stores.find(webhook.store, BoxKind::inbox));
  }
  auto intake = std::make_shared<WebhookIntake>(std::move(endpoints), options);
  const auto add = [&](std::string method, std::string_view handshake, bool quick) {
    std::set<std::string> names;
    for (const WebhookConfig& webhook : config.webhooks) {
      if (handshake.empty() || webhook.handshake == handshake) names.insert(webhook.name);
    }
    router.add(
        {.method = std::move(method),
         .path = "/webhooks/{endpoint}",
         .need = RequiredAccess::signature,
         .call = [intake](const EndpointRequest& call) { return intake->handle(call.request); },
         .quick = quick,
         .pool = RequestPoolKind::intake,
         .exists =
             [names = std::move(names)](const RequestTarget& target) {
               return names.contains(target.segments.back());
             },
         .store =
             [stores = stores_of](const RequestTarget& target) {
               const auto found = stores.find(target.segments.back());
               return found == stores.end() ? nullptr : found->second;
             }});
  };
  add("POST", "", false);
  // What a handshake asks before anything is sent; no store is asked for it.
  add("GET", "meta", true);
  add("OPTIONS", "cloudevents", true);
}

/// The answer to a path that leads nowhere; to any other, a body belongs.
std::optional<HttpResponse> if_not_found(HttpResponse answer) {
  if (answer.status != 404) return {};
  return answer;
}

/// Made at the first request: the inbox of a store that is away cannot be opened now.
class LazyEventHandler {
 public:
  explicit LazyEventHandler(std::function<IntakeCall()> make) : make_(std::move(make)) {}
  HttpResponse operator()(const Arrival& arrival) {
    {
      const std::lock_guard lock{mutex_};
      if (!call_) call_ = make_();
    }
    return call_(arrival);
  }

 private:
  std::function<IntakeCall()> make_;
  std::mutex mutex_;
  IntakeCall call_;
};

/// Kept for the dispatcher, which goes on with it when it is let.
HttpResponse keep(Inbox& inbox, const Arrival& arrival, const IntakeOptions& options) {
  const Accepted accepted = inbox.accept(arrival);
  if (accepted.conflict || accepted.state == Acceptance::duplicate_done ||
      accepted.state == Acceptance::duplicate_dead) {
    return accepted_response(arrival, accepted);
  }
  HttpResponse answer =
      problem(503, "Service Unavailable",
              "delivery is paused; the event is stored and will be handled when delivery resumes");
  answer.headers.add("Retry-After", std::to_string(options.retry_after.count()));
  return answer;
}

IntakeCall inline_answer(const EventConfig& event, const Stores& stores, SinkFactory& sinks,
                         const InlineCalls& calls, const IntakeOptions& options) {
  Handlers handlers;
  handlers.add(EventName{event.name, event.version}.topic(),
               {sinks.make(event.sink, BoxKind::inbox, {}), {}});
  auto lazy = std::make_shared<LazyEventHandler>(
      [&stores, store = event.store, handlers = std::move(handlers), calls] {
        return inline_mode(find_store(stores, store, BoxKind::inbox).inbox(), handlers,
                           {.observer = calls.observer(), .stop = calls.stop});
      });
  return [lazy, &stores, name = event.store, switched_off = calls.switched_off,
          options](const Arrival& arrival) {
    Store& store = find_store(stores, name, BoxKind::inbox);
    if (switched_off(store.name(), arrival.topic.str()))
      return keep(store.inbox(), arrival, options);
    return (*lazy)(arrival);
  };
}

/// Named events: each goes its own way, found by the topic that it is stored under.
void add_named_events(HttpRouter& router, const Config& config, const Stores& stores,
                      SinkFactory& sinks, const InlineCalls& calls, const IntakeOptions& options) {
  std::vector<EventName> names;
  std::map<std::string, IntakeCall> ways;
  std::set<std::pair<std::string, std::string>> inlined;  // as the path names them
  std::map<std::pair<std::string, std::string>, const Store*> stores_of;
  for (const EventConfig& event : config.events) {
    const EventName name{event.name, event.version};
    if (!ways.emplace(name.type(), event.inline_mode
                                       ? inline_answer(event, stores, sinks, calls, options)
                                       : accept_mode(accept_into(stores, event.store)))
             .second) {
      throw std::invalid_argument("event " + name.type() +
                                  " is defined twice; remove one definition");
    }
    names.push_back(name);
    const std::pair path{event.name, "v" + std::to_string(event.version)};
    if (event.inline_mode) inlined.insert(path);
    stores_of.emplace(path, stores.find(event.store, BoxKind::inbox));
  }
  const IntakeCall take = [ways = std::move(ways)](const Arrival& arrival) {
    return ways.at(arrival.topic.str())(arrival);
  };
  auto intake = std::make_shared<NamedEventIntake>(names, take, options);
  router.add(
      {.method = "POST",
       .path = "/events/{name}/{version}",
       .need = RequiredAccess::send,
       .call = [intake](const EndpointRequest& call) { return intake->handle(call.request); },
       .pool = RequestPoolKind::intake,
       .refuse = [intake, stores_of](const EndpointRequest& call) -> std::optional<HttpResponse> {
         if (stores_of.contains({call.target.segments[1], call.target.segments[2]})) return {};
         return if_not_found(intake->handle(call.request));
       },
       .store =
           [stores_of = std::move(stores_of)](const RequestTarget& target) {
             const auto found = stores_of.find({target.segments[1], target.segments[2]});
             return found == stores_of.end() ? nullptr : found->second;
           },
       .calls_handler =
           [inlined = std::move(inlined)](const RequestTarget& target) {
             return inlined.contains({target.segments[1], target.segments[2]});
           }});
}

void add_sidecar(HttpRouter& router, const Config& config, const Stores& stores,
                 const IntakeOptions& options) {
  std::vector<Subscription> subscriptions;
  std::map<std::string, const Store*> stores_of;
  for (const SubscriptionConfig& topic : config.subscriptions) {
    subscriptions.push_back({.pubsub = topic.name,
                             .topic = topic.topic,
                             .route = topic.route,
                             .take = accept_mode(accept_into(stores, topic.store))});
    if (!topic.stored.empty()) subscriptions.back().stored = Topic{topic.stored};
    stores_of.emplace(topic.route, stores.find(topic.store, BoxKind::inbox));
  }
  auto intake = std::make_shared<SidecarIntake>(std::move(subscriptions), options);
  const auto handle = [intake](const EndpointRequest& call) {
    return intake->handle(call.request);
  };
  router.add({"GET", "/dapr/subscribe", RequiredAccess::send, handle});
  router.add(
      {.method = "POST",
       .path = "/sidecar/{route}",
       .need = RequiredAccess::send,
       .call = handle,
       .pool = RequestPoolKind::intake,
       .refuse = [intake, stores_of](const EndpointRequest& call) -> std::optional<HttpResponse> {
         if (stores_of.contains("/sidecar/" + call.target.segments[1])) return {};
         return if_not_found(intake->handle(call.request));
       },
       .store =
           [stores_of = std::move(stores_of)](const RequestTarget& target) {
             const auto found = stores_of.find("/sidecar/" + target.segments[1]);
             return found == stores_of.end() ? nullptr : found->second;
           }});
}

/// The one parameter that there is; a misspelt one must not lead elsewhere.
std::string store_name(const RequestTarget& target) {
  refuse_unknown(target, {"store"});
  return std::string{target.find("store").value_or("")};
}

/// Refuses a store that there is not.
std::function<std::optional<HttpResponse>(const EndpointRequest&)> refuse_store(
    const Stores& stores, BoxKind kind) {
  return [&stores, kind](const EndpointRequest& call) -> std::optional<HttpResponse> {
    find_store(stores, store_name(call.target), kind);
    return {};
  };
}

/// Requests for the same box are answered together. `handle` gets the name of its store.
using HandleAll = std::function<std::vector<HttpResponse>(const std::string& store,
                                                          std::span<const HttpRequest> requests)>;

/// An intake of one message per request into the box that `?store=` names.
Endpoint box_endpoint(std::string path, const Stores& stores, BoxKind kind,
                      const HandleAll& handle) {
  std::map<std::string, std::shared_ptr<RequestBatcher>> by_store;
  for (const Stores::ServedStore& entry : stores.all()) {
    const std::string& name = entry.store->name();
    by_store[name] = std::make_shared<RequestBatcher>(
        [handle, name](std::span<const HttpRequest> requests) { return handle(name, requests); });
  }
  return {.method = "POST",
          .path = std::move(path),
          .need = RequiredAccess::send,
          .call =
              [handle](const EndpointRequest& call) {
                return std::move(handle(store_name(call.target), {&call.request, 1})[0]);
              },
          .pool = RequestPoolKind::intake,
          .shared =
              [&stores, kind, by_store = std::move(by_store)](const RequestTarget& target) {
                const bool strange = std::ranges::any_of(
                    target.query, [](const auto& one) { return one.first != "store"; });
                const Store* store =
                    strange ? nullptr : stores.find(target.find("store").value_or(""), kind);
                return store == nullptr ? nullptr : by_store.at(store->name());
              },
          .refuse = refuse_store(stores, kind),
          .store = [&stores, kind](const RequestTarget& target) -> const Store* {
            return stores.find(target.find("store").value_or(""), kind);
          }};
}

}  // namespace

void add_intakes(HttpRouter& router, const Config& config, const Stores& stores, SinkFactory& sinks,
                 const InlineCalls& calls, SourceNames senders, const Environment& environment) {
  const IntakeOptions options = intake_options(config, std::move(senders), environment);
  router.add(box_endpoint(
      "/v1/outbox/{topic}", stores, BoxKind::outbox,
      [&stores, options](const std::string& store, std::span<const HttpRequest> requests) {
        Outbox& outbox = find_store(stores, store, BoxKind::outbox).outbox();
        return OutboxIntake{outbox, options}.handle(requests);
      }));
  router.add(box_endpoint(
      "/v1/inbox/{source}/{topic}", stores, BoxKind::inbox,
      [&stores, options](const std::string& store, std::span<const HttpRequest> requests) {
        find_store(stores, store, BoxKind::inbox);
        return InboxIntake{accept_into(stores, store), options}.handle(requests);
      }));
  router.add(
      {.method = "POST",
       .path = "/v1/events",
       .need = RequiredAccess::send,
       .call =
           [&stores, options](const EndpointRequest& call) {
             find_store(stores, store_name(call.target), BoxKind::inbox);
             return EventIntake{accept_into(stores, store_name(call.target)), options}.handle(
                 call.request);
           },
       .pool = RequestPoolKind::intake,
       .refuse = refuse_store(stores, BoxKind::inbox),
       .store = [&stores](const RequestTarget& target) -> const Store* {
         return stores.find(target.find("store").value_or(""), BoxKind::inbox);
       }});
  add_named_events(router, config, stores, sinks, calls, options);
  add_webhooks(router, config, stores, options);
  add_sidecar(router, config, stores, options);
}

}  // namespace twinbox::app
