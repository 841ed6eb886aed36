// The daemon's log: events with fields, as text or as JSON.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/config/config.hpp"
#include <twinbox/environment.hpp>

namespace twinbox::app {

/// One line without the line break. Values that are not a plain word are quoted.
std::string log_line(const LogEvent& event, bool json, Instant now);

/// The target of a request for the log: at most 256 bytes, with only the query values that cannot
/// contain a secret.
std::string logged_target(std::string_view target);

/// Writes to standard error. Thread-safe.
class Log {
 public:
  explicit Log(const LogConfig& config);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void set(const LogConfig& config);
  void write(const LogEvent& event);
  void write(LogLevel level, std::string_view name, std::initializer_list<LogField> fields);
  [[nodiscard]] bool access() const noexcept { return access_; }
  /// The log function for the library. It receives every event and applies the current level.
  [[nodiscard]] Environment environment();
  /// The number of `conflict` events that the library has logged at any level.
  [[nodiscard]] std::uint64_t conflicts() const noexcept { return conflicts_; }

 private:
  struct Sink;
  std::unique_ptr<Sink> sink_;
  std::atomic<bool> json_;
  std::atomic<bool> access_;
  std::atomic<bool> messages_;
  std::atomic<std::uint64_t> conflicts_ = 0;
  std::atomic<LogLevel> level_;
};

}  // namespace twinbox::app
