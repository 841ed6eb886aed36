// Log events for a spdlog logger. Needs its headers; Twinbox itself does not.
#pragma once

#include <functional>
#include <memory>
#include <spdlog/logger.h>
#include <utility>

#include "twinbox/environment.hpp"

namespace twinbox {

inline spdlog::level::level_enum to_spdlog(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: break;
  }
  return spdlog::level::err;
}

/// For Environment::log: `event field=value …`, at the level that corresponds. Set
/// Environment::log_level as low as the logger's own.
inline std::function<void(const LogEvent&)> log_to_spdlog(std::shared_ptr<spdlog::logger> logger) {
  return [logger = std::move(logger)](const LogEvent& event) {
    const spdlog::level::level_enum level = to_spdlog(event.level);
    if (logger->should_log(level)) logger->log(level, spdlog::string_view_t{log_text(event)});
  };
}

}  // namespace twinbox
