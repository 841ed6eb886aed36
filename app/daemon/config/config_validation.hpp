// Validates a section by constructing its objects: errors of the library become problems of the
// related key. Nothing is connected.
#pragma once

#include "daemon/config/config_reader.hpp"
#include <twinbox/webhook.hpp>

namespace twinbox::app {

void validate_store(TableReader& table, const StoreConfig& store);
void validate_sink(TableReader& table, const SinkConfig& sink);
void validate_source(TableReader& table, const SourceConfig& source);
void validate_webhook(TableReader& table, const WebhookConfig& webhook);
void validate_subscription(TableReader& table, const SubscriptionConfig& subscription);
/// Checks an HTTP address.
void validate_address(TableReader& table, std::string_view key, const std::string& address);

/// `sha1`, `sha512`, else SHA-256.
MacHash mac_hash(const std::string& algorithm);
Handshake handshake_of(const WebhookConfig& webhook);

}  // namespace twinbox::app
