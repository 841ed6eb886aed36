// Reads and checks the sections of a configuration and records their problems.
#pragma once

#include "daemon/config/config_reader.hpp"

namespace twinbox::app {

/// `postgresql://user:password@host`, or `password=`, `PWD=` in a list of keywords.
bool holds_password(std::string_view address);

void read_server(TableReader table, ServerConfig& server);
void read_limit(TableReader table, LimitConfig& limit);
void read_log(TableReader table, LogConfig& log);
void read_access(TableReader table, AccessConfig& access);
void read_store(TableReader table, StoreConfig& store, const toml::table* source);
void read_dispatch(TableReader table, DispatcherOptions& dispatch);
void read_retry(TableReader table, RetryPolicy& retry);
void read_sink(TableReader& table, SinkConfig& sink, const toml::table* source);
void read_source(TableReader& table, SourceConfig& source, const toml::table* file);
void read_route(TableReader& table, RouteConfig& route);
void read_webhook(TableReader& table, WebhookConfig& webhook);
void read_subscription(TableReader& table, SubscriptionConfig& subscription);
void read_dashboard(TableReader table, DashboardConfig& dashboard);
void read_tracing(TableReader table, TracingConfig& tracing);
void read_health(TableReader table, HealthThresholds& health);
void read_intake(TableReader table, IntakeConfig& intake);
void read_event(TableReader& table, EventConfig& event);

}  // namespace twinbox::app
