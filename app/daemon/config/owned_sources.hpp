// Sources that belong to one endpoint or broker: every other sender is refused.
#pragma once

#include <set>
#include <span>
#include <string>

#include "daemon/access/tokens.hpp"
#include "daemon/config/config.hpp"

namespace twinbox::app {

using SourceNames = std::set<std::string, std::less<>>;

/// The source of a broker's messages that name none.
std::string own_source(const SourceConfig& source);

/// The source of what a sink of type inbox writes, for messages that have none.
std::string inbox_source(const SinkConfig& sink);

/// The sources that belong to webhook endpoints and brokers. One that an endpoint reads from the
/// request cannot be known before: then it is the endpoint's name.
SourceNames owned_sources(const Config& config);

/// The sources under which sinks of type inbox write messages that have none. A sender of HTTP that
/// could name one would take the ids of what the sink brings next.
SourceNames relayed_sources(const Config& config);

/// The names of tokens under which a route brings messages of the outbox into an inbox: each
/// belongs to its token. Empty where no route does.
SourceNames relayed_senders(const Config& config, std::span<const Token> tokens);

/// Those that this broker may not write under.
SourceNames reserved_for(const SourceConfig& source, const Config& config);

}  // namespace twinbox::app
