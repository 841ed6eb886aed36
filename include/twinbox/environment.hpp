// The environment supplies time, randomness and the log, so that tests and the simulator control
// them.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace twinbox {

/// A point in time, UTC, to the microsecond.
using Instant = std::chrono::sys_time<std::chrono::microseconds>;
using Duration = std::chrono::microseconds;

/// An Instant from any point of the system clock, such as `system_clock::now() + 1h`, truncated to
/// microseconds.
class InstantArg {
 public:
  template <class Rep, class Period>
  InstantArg(std::chrono::sys_time<std::chrono::duration<Rep, Period>> time)  // NOLINT
      : instant_(std::chrono::floor<Duration>(time)) {}
  operator Instant() const noexcept { return instant_; }  // NOLINT(google-explicit-constructor)

  auto operator<=>(const InstantArg&) const = default;

 private:
  Instant instant_;
};

enum class LogLevel { debug, info, warning, error };

/// One field of a log event. The text is borrowed for the duration of the call.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double, bool> value;
};

/// An event with fields: no sentence, no payload.
struct LogEvent {
  LogLevel level;
  std::string_view name;  ///< what happened: enqueue, claim, ack, …
  std::span<const LogField> fields;
};

/// The library's dependencies on the system. Every member has a working default. The functions are
/// called from many threads at once.
struct Environment {
  /// The test's clock; empty (the default) means the database's own clock.
  std::function<std::optional<Instant>()> clock = {};
  /// 64 random bits; empty means the system's source of randomness.
  std::function<std::uint64_t()> random = {};
  /// Receives events of at least `log_level`. Empty: warnings and errors go to stderr; `[](const
  /// LogEvent&) {}`: no log. Ready-made ones are log_to_stderr and spdlog.hpp. Its exceptions are
  /// swallowed.
  std::function<void(const LogEvent&)> log = {};
  LogLevel log_level = LogLevel::info;
  /// Called after every statement: its name, its duration, and how many rows it changed or
  /// returned.
  std::function<void(std::string_view statement, std::chrono::nanoseconds, std::size_t rows)>
      timing = {};

  [[nodiscard]] std::optional<Instant> now() const { return clock ? clock() : std::nullopt; }
  [[nodiscard]] std::uint64_t random_bits() const;
  /// Whether write() passes an event of this level on, to the log or to stderr.
  [[nodiscard]] bool logs(LogLevel level) const noexcept {
    return level >= log_level && (log || level >= LogLevel::warning);
  }
  void write(LogLevel level, std::string_view name,
             std::initializer_list<LogField> fields) const noexcept {
    write({level, name, {fields.begin(), fields.size()}});
  }
  void write(const LogEvent& event) const noexcept;
};

// Log events as lines of text, for programs that have no logger of their own.

/// Characters that are invisible but change how the text around them is shown: DEL and C1 controls,
/// direction and zero-width marks, line and paragraph separators, tags.
bool is_hidden(char32_t code) noexcept;

/// debug, info, warning or error.
std::string_view to_string(LogLevel level) noexcept;

/// `event field=value field="value with blanks"`, without a line end. Values that are empty or
/// contain a blank, a quotation mark, `=` or a terminal control are JSON strings.
std::string log_text(const LogEvent& event);

/// For Environment::log: every event as one line on stderr, `twinbox: <level> <event> field=value
/// …`. An Environment without a log uses it for warnings and errors.
void log_to_stderr(const LogEvent& event);

}  // namespace twinbox
