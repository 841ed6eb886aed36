// Tells the service manager how the daemon is (sd_notify), where there is one.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace twinbox::app {

/// Sends `state` ("READY=1") to the socket that NOTIFY_SOCKET names; nothing without it.
void notify_systemd(std::string_view state);

/// Half of the time in which the manager wants to hear from us; empty: it does not care.
std::optional<std::chrono::milliseconds> watchdog_interval();

}  // namespace twinbox::app
