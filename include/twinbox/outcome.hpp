// The result of a handler.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "twinbox/environment.hpp"

namespace twinbox {

/// The cause of a failure, in a form that a log may show: a string literal and a number, such as
/// `{"http", 503}`. External text cannot get into it.
class LogCause {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval LogCause(const char* text) : text_(text) {}
  constexpr LogCause(LogCause cause, int number) : text_(cause.text_), number_(number) {}

  /// `http 503`
  [[nodiscard]] std::string str() const {
    std::string text{text_};
    if (number_) text += " " + std::to_string(*number_);
    return text;
  }

 private:
  std::string_view text_;
  std::optional<int> number_;
};

/// The result of a handler. An exception means retry with the exception's text.
class Outcome {
 public:
  using Delay = std::chrono::microseconds;
  enum class Kind { done, retry, dead, postpone };

  static Outcome done() { return Outcome{Kind::done}; }
  /// Retries it after `delay` or by the retry policy; counts as a failed attempt.
  static Outcome retry(std::string reason, std::optional<Delay> delay = {}) {
    return Outcome{Kind::retry, std::move(reason), delay};
  }
  /// The same with a cause for the log, which omits the reason because it may repeat a payload.
  static Outcome retry(std::string reason, std::optional<Delay> delay, LogCause cause) {
    return Outcome{Kind::retry, std::move(reason), delay}.because(cause);
  }
  /// It can never succeed: it becomes a dead letter.
  static Outcome dead(std::string reason) { return Outcome{Kind::dead, std::move(reason)}; }
  static Outcome dead(std::string reason, LogCause cause) {
    return dead(std::move(reason)).because(cause);
  }
  /// Its content can never be read: a dead letter with the reason `malformed`.
  static Outcome malformed(std::string reason) {
    Outcome outcome{Kind::dead, std::move(reason)};
    outcome.cause_ = "malformed";
    return outcome;
  }
  /// The receiver knows its id with other content and keeps that content: a dead letter with the
  /// reason `conflict`.
  static Outcome conflict(std::string reason) {
    Outcome outcome{Kind::dead, std::move(reason)};
    outcome.cause_ = "conflict";
    return outcome;
  }
  /// Postpones it; no attempt is counted.
  static Outcome postpone(Instant until) { return Outcome{Kind::postpone, {}, {}, until}; }

  /// The same under another name.
  [[nodiscard]] Outcome with_reason(std::string reason) const {
    Outcome outcome = *this;
    outcome.reason_ = std::move(reason);
    return outcome;
  }

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  /// The reason of the dead letter.
  [[nodiscard]] std::string_view cause() const noexcept { return cause_; }
  /// The cause that the log shows; empty: none was given.
  [[nodiscard]] const std::optional<LogCause>& log_cause() const noexcept { return log_cause_; }
  [[nodiscard]] const std::optional<Delay>& delay() const noexcept { return delay_; }
  [[nodiscard]] Instant until() const noexcept { return until_; }

 private:
  explicit Outcome(Kind kind, std::string reason = {}, std::optional<Delay> delay = {},
                   Instant until = {})
      : kind_(kind), reason_(std::move(reason)), delay_(delay), until_(until) {}

  Outcome because(LogCause cause) && {
    log_cause_ = cause;
    return std::move(*this);
  }

  Kind kind_;
  std::string reason_;
  std::optional<Delay> delay_;
  Instant until_;
  std::string_view cause_ = "handler";  ///< of a literal
  std::optional<LogCause> log_cause_;
};

}  // namespace twinbox
