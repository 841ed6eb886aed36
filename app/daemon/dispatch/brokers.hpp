// Creates the configured sinks and sources of brokers. A broker that this program was built without
// is refused by name.
#pragma once

#include <memory>
#include <vector>

#include "daemon/config/config.hpp"
#include <twinbox/handler.hpp>
#include <twinbox/health.hpp>
#include <twinbox/source.hpp>

namespace twinbox::app {

/// Both throw std::invalid_argument with the name of the option. Nothing is connected yet.
HandlerCall make_broker_sink(const SinkConfig& sink, const Environment& environment);
std::unique_ptr<BrokerSource> make_broker_source(const SourceConfig& source, AcceptCall accept,
                                                 const Environment& environment);

/// Unsafe broker settings of a configuration, each with its section.
std::vector<Finding> examine_brokers(const Config& config);

}  // namespace twinbox::app
