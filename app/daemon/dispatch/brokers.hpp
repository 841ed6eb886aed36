// Sinks and sources over brokers, as the configuration describes them. A broker that this program
// was built without is refused by name.
#pragma once

#include <memory>
#include <vector>

#include "daemon/config/config.hpp"
#include <twinbox/handler.hpp>
#include <twinbox/health.hpp>
#include <twinbox/source.hpp>

namespace twinbox::app {

/// Both throw std::invalid_argument naming the option. Nothing is connected to yet.
HandlerCall make_broker_sink(const SinkConfig& sink, const Environment& environment);
std::unique_ptr<BrokerSource> make_broker_source(const SourceConfig& source, AcceptCall accept,
                                                 const Environment& environment);

/// What is unsafe about the brokers of a configuration, each named by its section.
std::vector<Finding> examine_brokers(const Config& config);

}  // namespace twinbox::app
