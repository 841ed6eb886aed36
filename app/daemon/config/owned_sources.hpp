// Sources that belong to one endpoint or broker: every other sender is refused.
#pragma once

#include <set>
#include <string>

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

/// Those that this broker may not write under.
SourceNames reserved_for(const SourceConfig& source, const Config& config);

}  // namespace twinbox::app
