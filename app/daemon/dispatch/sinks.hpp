// Creates the configured sinks and routes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/config/config.hpp"
#include "daemon/store/stores.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::app {

BodyFormat form_of(SinkConfig::Form form);
/// The name of the route that retries an inline event.
std::string event_route(const std::string& topic);

/// Creates sinks, which share connections where possible.
class SinkFactory {
 public:
  /// `stores` must outlive the sinks. With an observer, every call runs inside a span.
  SinkFactory(const Config& config, const Stores& stores, Environment environment,
              std::function<void(const HandlerSpan&)> spans = {});

  using From = std::vector<std::shared_ptr<Store>>;

  /// `from` and `box` are the stores and the kind of box of its messages. Throws
  /// std::invalid_argument with the sink and the problem.
  HandlerCall make(const std::string& name, BoxKind box, const From& from);
  /// The routes of one kind of box; for an inbox, including the routes that retry inline events.
  std::vector<Route> routes(BoxKind kind, const From& from);

 private:
  HandlerCall make(const SinkConfig& sink, BoxKind box, const From& from);
  HandlerCall make_inbox(const SinkConfig& sink, BoxKind box, const From& from);
  std::shared_ptr<HttpClient> client(const SinkConfig& sink);

  const Config& config_;
  const Stores& stores_;
  Environment environment_;
  std::function<void(const HandlerSpan&)> spans_;
  std::map<std::string, std::shared_ptr<HttpClient>> clients_;  // by their options
};

}  // namespace twinbox::app
