// What a handler says about a message.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "twinbox/environment.hpp"

namespace twinbox {

/// What a handler says about a message. An exception means retry with the exception's text.
class Outcome {
 public:
  using Delay = std::chrono::microseconds;
  enum class Kind { done, retry, dead, postpone };

  static Outcome done() { return Outcome{Kind::done}; }
  /// To be tried again, after `delay` or by the retry policy; counts as a failed attempt.
  static Outcome retry(std::string reason, std::optional<Delay> delay = {}) {
    return Outcome{Kind::retry, std::move(reason), delay};
  }
  /// Can never succeed: kept as a dead letter.
  static Outcome dead(std::string reason) { return Outcome{Kind::dead, std::move(reason)}; }
  /// Its content cannot be read, now or ever: a dead letter with the reason `malformed`.
  static Outcome malformed(std::string reason) {
    Outcome outcome{Kind::dead, std::move(reason)};
    outcome.cause_ = "malformed";
    return outcome;
  }
  /// The receiver knows its id with other content and keeps that: a dead letter with the reason
  /// `conflict`.
  static Outcome conflict(std::string reason) {
    Outcome outcome{Kind::dead, std::move(reason)};
    outcome.cause_ = "conflict";
    return outcome;
  }
  /// Not now; no attempt is counted.
  static Outcome postpone(Instant until) { return Outcome{Kind::postpone, {}, {}, until}; }

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  /// The reason that a dead letter is filed under.
  [[nodiscard]] std::string_view cause() const noexcept { return cause_; }
  [[nodiscard]] const std::optional<Delay>& delay() const noexcept { return delay_; }
  [[nodiscard]] Instant until() const noexcept { return until_; }

 private:
  explicit Outcome(Kind kind, std::string reason = {}, std::optional<Delay> delay = {},
                   Instant until = {})
      : kind_(kind), reason_(std::move(reason)), delay_(delay), until_(until) {}

  Kind kind_;
  std::string reason_;
  std::optional<Delay> delay_;
  Instant until_;
  std::string_view cause_ = "handler";  ///< of a literal
};

}  // namespace twinbox
