// Reports the state of the daemon to the service manager (sd_notify), if there is one.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace twinbox::app {

/// Sends `state` ("READY=1") to the socket that NOTIFY_SOCKET names; nothing without it.
void notify_systemd(std::string_view state);

/// Half of the manager's watchdog interval; empty: no watchdog.
std::optional<std::chrono::milliseconds> watchdog_interval();

}  // namespace twinbox::app
