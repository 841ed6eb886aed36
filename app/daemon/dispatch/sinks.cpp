#include "daemon/dispatch/sinks.hpp"

#include <algorithm>
#include <stdexcept>

#include "daemon/config/owned_sources.hpp"
#include "daemon/config/secrets.hpp"
#include "daemon/dispatch/brokers.hpp"
#include <twinbox/error.hpp>

namespace twinbox::app {
namespace {

HttpSinkOptions http_options(const SinkConfig& sink, Duration grace) {
  HttpSinkOptions options{.url = sink.url, .method = sink.method};
  for (const auto& [name, value] : sink.headers) options.headers.add(name, value);
  options.form = form_of(sink.form);
  options.timeout = sink.timeout;
  options.grace = grace;
  options.secrets = sink.secrets;
  options.done_on = {sink.done_on.begin(), sink.done_on.end()};
  if (sink.dead_on) options.dead_on = {sink.dead_on->begin(), sink.dead_on->end()};
  return options;
}

CommandSinkOptions command_options(const SinkConfig& sink) {
  CommandSinkOptions options{.command = sink.command};
  options.timeout = sink.timeout;
  options.kill_after = sink.kill_after;
  options.directory = sink.directory;
  options.variables = {sink.variables.begin(), sink.variables.end()};
  if (sink.dead_on) options.dead_on = {sink.dead_on->begin(), sink.dead_on->end()};
  return options;
}

Outcome printable(Outcome outcome) {
  std::string reason = without_secrets(outcome.reason());
  if (reason == outcome.reason()) return outcome;
  return outcome.with_reason(std::move(reason));
}

/// What is thrown means retry; its kind matters to the dispatcher and to routes, so only a text
/// that must not be stored becomes an outcome.
template <class Call, class Answer>
auto call_printably(const Call& call, const Answer& answer) {
  try {
    return call();
  } catch (const ReceiverGone& gone) {
    throw ReceiverGone(without_secrets(gone.what()));
  } catch (const DatabaseError& error) {
    std::string text = without_secrets(error.what());
    if (text == error.what()) throw;
    throw DatabaseError(error.kind(), text, error.native_code());
  } catch (const std::exception& error) {
    std::string text = without_secrets(error.what());
    if (text == error.what()) throw;
    return answer(Outcome::retry(std::move(text)));
  }
}

/// What a sink answers is stored as the error of a message, and shown.
HandlerCall without_secrets(HandlerCall call) {
  if (auto* one = std::get_if<MessageHandler>(&call)) {
    return MessageHandler{[inner = std::move(*one)](const Message& message, std::stop_token stop) {
      return call_printably([&] { return printable(inner(message, std::move(stop))); },
                            [](Outcome outcome) { return outcome; });
    }};
  }
  if (auto* many = std::get_if<BatchHandler>(&call)) {
    return BatchHandler{
        [inner = std::move(*many)](std::span<const Message> messages, std::stop_token stop) {
          return call_printably(
              [&] {
                std::vector<Outcome> outcomes = inner(messages, std::move(stop));
                for (Outcome& outcome : outcomes) outcome = printable(std::move(outcome));
                return outcomes;
              },
              [&](const Outcome& outcome) { return std::vector(messages.size(), outcome); });
        }};
  }
  return TransactionalHandler{[inner = std::move(std::get<TransactionalHandler>(call))](
                                  Session& session, const Message& message, std::stop_token stop) {
    return call_printably([&] { return printable(inner(session, message, std::move(stop))); },
                          [](Outcome outcome) { return outcome; });
  }};
}

/// For good: under this source it would be taken for what its owner has verified or fetched.
Outcome refuse_owned(const Message& message) {
  return Outcome::dead(
      "the source '" + message.source.str() +
      "' of this message belongs to a webhook endpoint or a broker, and only that may use it in an "
      "inbox; enqueue the message with another token, or rename the endpoint or broker");
}

}  // namespace

BodyFormat form_of(SinkConfig::Form form) {
  switch (form) {
    case SinkConfig::Form::raw: return BodyFormat::raw;
    case SinkConfig::Form::binary: return BodyFormat::binary;
    case SinkConfig::Form::structured: return BodyFormat::structured;
    case SinkConfig::Form::automatic: break;
  }
  return BodyFormat::automatic;
}

std::string event_route(const std::string& topic) { return "event " + topic; }

SinkFactory::SinkFactory(const Config& config, const Stores& stores, Environment environment,
                         std::function<void(const HandlerSpan&)> spans)
    : config_(config),
      stores_(stores),
      environment_(std::move(environment)),
      spans_(std::move(spans)) {}

HandlerCall SinkFactory::make(const std::string& name, BoxKind box, const From& from) {
  try {
    HandlerCall call = without_secrets(make(*config_.find_sink(name), box, from));
    if (!spans_) return call;
    return traced({std::move(call), {}}, {spans_, environment_}).call;
  } catch (const std::logic_error& error) {
    throw std::invalid_argument("sink." + name + ": " + error.what());
  }
}

HandlerCall SinkFactory::make(const SinkConfig& sink, BoxKind box, const From& from) {
  switch (sink.kind) {
    case SinkConfig::Kind::http:
      return http_sink(client(sink), http_options(sink, config_.dispatch.grace), environment_);
    case SinkConfig::Kind::command: return command_sink(command_options(sink));
    case SinkConfig::Kind::log: return log_sink(environment_);
    case SinkConfig::Kind::rabbitmq:
    case SinkConfig::Kind::nats:
    case SinkConfig::Kind::kafka: return make_broker_sink(sink, environment_);
    case SinkConfig::Kind::inbox: break;
  }
  return make_inbox(sink, box, from);
}

/// Opened at the first message: a store that is away now may be back by then.
HandlerCall SinkFactory::make_inbox(const SinkConfig& sink, BoxKind box, const From& from) {
  Store* store = stores_.find(sink.store, BoxKind::inbox);
  if (store == nullptr) throw std::invalid_argument("no store serves an inbox; configure one");
  const InboxSinkOptions options{.source = Source{inbox_source(sink)}};
  // A sender chooses the source in an outbox by its token. In an inbox the owner has written it.
  const SourceNames owned = box == BoxKind::outbox ? owned_sources(config_) : SourceNames{};
  const auto other = std::ranges::find_if(
      from, [&](const std::shared_ptr<Store>& one) { return one.get() != store; });
  if (other == from.end()) {
    return TransactionalHandler{
        [store, options, owned](Session& session, const Message& message, std::stop_token stop) {
          if (owned.contains(message.source.view())) return refuse_owned(message);
          const HandlerCall call = inbox_sink(store->inbox(), store->database(), options);
          return std::get<TransactionalHandler>(call)(session, message, std::move(stop));
        }};
  }
  return MessageHandler{
      [store, from = *other, options, owned](const Message& message, std::stop_token stop) {
        if (owned.contains(message.source.view())) return refuse_owned(message);
        const HandlerCall call = inbox_sink(store->inbox(), from->database(), options);
        return std::get<MessageHandler>(call)(message, std::move(stop));
      }};
}

std::shared_ptr<HttpClient> SinkFactory::client(const SinkConfig& sink) {
  std::string key = std::to_string(sink.per_host) + "\n" +
                    std::to_string(sink.connect_timeout.count()) + "\n" + sink.ca_file + "\n" +
                    sink.broker.certificate_file + "\n" + sink.broker.key_file + "\n" + sink.proxy;
  for (const std::string& network : sink.allow) key += "\n" + network;
  std::shared_ptr<HttpClient>& client = clients_[key];
  if (!client) {
    HttpClientOptions options;
    options.per_host = static_cast<std::size_t>(sink.per_host);
    options.connect_timeout = sink.connect_timeout;
    options.allow = sink.allow;
    options.ca_file = sink.ca_file;
    options.certificate_file = sink.broker.certificate_file;
    options.key_file = sink.broker.key_file;
    options.proxy = sink.proxy;
    client = std::make_shared<HttpClient>(options);
  }
  return client;
}

std::vector<Route> SinkFactory::routes(BoxKind kind, const From& from) {
  std::vector<Route> routes;
  for (const RouteConfig& route : config_.routes) {
    if (route.box != kind) continue;
    HandlerOptions options;
    if (const auto retry = config_.retries.find(route.retry); retry != config_.retries.end()) {
      options.retry = retry->second;
    }
    routes.push_back({.name = route.name,
                      .pattern = TopicPattern{route.topic},
                      .sink = make(route.sink, kind, from),
                      .options = std::move(options),
                      .enabled = route.enabled});
  }
  for (const EventConfig& event : config_.events) {
    if (kind != BoxKind::inbox || !event.inline_mode) continue;
    const std::string topic = EventName{event.name, event.version}.type();
    routes.push_back({.name = event_route(topic),
                      .pattern = TopicPattern{topic},
                      .sink = make(event.sink, kind, from)});
  }
  return routes;
}

}  // namespace twinbox::app
