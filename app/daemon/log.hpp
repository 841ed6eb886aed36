// The daemon's log: events with fields, as text for people or as JSON for programs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/config/config.hpp"
#include <twinbox/environment.hpp>

namespace twinbox::app {

/// One line, without its end. Values are quoted where they hold more than one plain word.
std::string log_line(const LogEvent& event, bool json, Instant now);

/// The target of a request for the log: at most 256 bytes, and of its query only values of
/// parameters that hold no secret.
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
  /// For the library: everything goes here, and the level is looked up at each event.
  [[nodiscard]] Environment environment();
  /// How many events named `conflict` the library has written, whatever the level.
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
