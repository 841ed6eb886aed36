// Sinks and routes as the configuration describes them.
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
/// The name of the route by which an inline event is tried again.
std::string event_route(const std::string& topic);

/// Makes sinks; those that can share connections do.
class SinkFactory {
 public:
  /// `stores` must outlive the sinks. With an observer, every call runs inside a span.
  SinkFactory(const Config& config, const Stores& stores, Environment environment,
              std::function<void(const HandlerSpan&)> spans = {});

  using From = std::vector<std::shared_ptr<Store>>;

  /// `from` are the stores, and `box` the kind of box, that its messages come from. Throws
  /// std::invalid_argument naming the sink and what is wrong with it.
  HandlerCall make(const std::string& name, BoxKind box, const From& from);
  /// The routes of one kind of box; for an inbox also those that inline events retry by.
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
