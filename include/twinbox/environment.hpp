// Time, chance and the log are handed in, so that tests and the simulator own them.
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

/// An Instant written as any point of the system clock, such as `system_clock::now() + 1h`: parts
/// of a microsecond are cut off.
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

/// An event with fields, never a sentence, never a payload.
struct LogEvent {
  LogLevel level;
  std::string_view name;  ///< what happened: enqueue, claim, ack, …
  std::span<const LogField> fields;
};

/// What the library needs from the world. Every member has a working default.
/// The functions are called from many threads at once.
struct Environment {
  /// The test's instant; empty (the default) means the database's own clock.
  std::function<std::optional<Instant>()> clock = {};
  /// 64 random bits; empty means the system's source of randomness.
  std::function<std::uint64_t()> random = {};
  /// Receives events of at least `log_level`; empty means warnings and errors on stderr, and
  /// `[](const LogEvent&) {}` silence. Ready-made ones are in log.hpp and log_spdlog.hpp. What it
  /// throws is swallowed.
  std::function<void(const LogEvent&)> log = {};
  LogLevel log_level = LogLevel::info;
  /// Told of every statement that ran: its name, how long it took, how many rows it changed or
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

/// Characters that have no shape of their own but change how the text around them is shown: DEL and
/// C1 controls, marks of direction and of no width, line and paragraph separators, tags.
bool is_hidden(char32_t code) noexcept;

/// debug, info, warning or error.
std::string_view to_string(LogLevel level) noexcept;

/// `event field=value field="value with blanks"`, without a line end: values that are empty or hold
/// a blank, a quotation mark, `=` or anything that a terminal could obey are JSON strings.
std::string log_text(const LogEvent& event);

/// For Environment::log: every event as one line on stderr, `twinbox: <level> <event> field=value
/// …`. Without a log of its own an Environment does this for warnings and errors.
void log_to_stderr(const LogEvent& event);

}  // namespace twinbox
