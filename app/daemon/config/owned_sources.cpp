#include "daemon/config/owned_sources.hpp"

#include <algorithm>

namespace twinbox::app {

std::string own_source(const SourceConfig& source) {
  return source.source.empty() ? source.name : source.source;
}

std::string inbox_source(const SinkConfig& sink) {
  return sink.source.empty() ? "outbox" : sink.source;
}

SourceNames owned_sources(const Config& config) {
  constexpr std::string_view fixed = "fixed:";
  SourceNames names;
  for (const WebhookConfig& webhook : config.webhooks) {
    const bool named = webhook.source.starts_with(fixed);
    names.insert(named ? webhook.source.substr(fixed.size()) : webhook.name);
  }
  for (const SourceConfig& source : config.sources) names.insert(own_source(source));
  return names;
}

SourceNames relayed_sources(const Config& config) {
  SourceNames names;
  for (const SinkConfig& sink : config.sinks) {
    if (sink.kind == SinkConfig::Kind::inbox) names.insert(inbox_source(sink));
  }
  return names;
}

SourceNames relayed_senders(const Config& config, std::span<const Token> tokens) {
  const bool relays = std::ranges::any_of(config.routes, [&](const RouteConfig& route) {
    const SinkConfig* sink = config.find_sink(route.sink);
    return route.box == BoxKind::outbox && sink != nullptr && sink->kind == SinkConfig::Kind::inbox;
  });
  SourceNames names;
  if (!relays) return names;
  for (const Token& token : tokens) {
    if (token.role == Role::send || token.role == Role::admin) names.insert(token.name);
  }
  return names;
}

SourceNames reserved_for(const SourceConfig& source, const Config& config) {
  SourceNames names = owned_sources(config);
  names.erase(own_source(source));
  return names;
}

}  // namespace twinbox::app
