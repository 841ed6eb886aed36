#include "dispatch/verdict.hpp"

#include <algorithm>
#include <limits>

#include "twinbox/error.hpp"

namespace twinbox {
namespace {

// Text that no database can store must not delay the settlement of other messages.
constexpr Duration shortest_delay{1};
constexpr Duration longest_delay = std::chrono::days{365};
constexpr Instant latest = std::chrono::sys_days{std::chrono::December / 31 / 9999};

/// An exception of a user's function only discards its result.
Duration delay_of(const RetryPolicy& retry, int failures, const Environment& environment) {
  std::string error;
  try {
    return retry.delay(failures, environment);
  } catch (const std::exception& exception) {
    error = text_of(exception);
  } catch (...) {
    error = "it threw something that is no std::exception";
  }
  environment.write(LogLevel::error, "retry_error", {{"error", std::string_view{error}}});
  RetryPolicy doubling = retry;
  doubling.custom = {};
  return doubling.delay(failures, environment);
}

Verdict retry_or_die(std::string error, int attempts, const std::optional<Duration>& delay,
                     const RetryPolicy& retry, const Environment& environment) {
  const int failures = std::min(attempts, std::numeric_limits<int>::max() - 1) + 1;
  if (retry.exhausted(failures)) {
    return {.action = Verdict::Action::fail, .error = std::move(error), .reason = "max_attempts"};
  }
  return {.action = Verdict::Action::abandon,
          .error = std::move(error),
          .delay = std::clamp(delay ? *delay : delay_of(retry, failures, environment),
                              shortest_delay, longest_delay)};
}

Verdict decide_action(const Outcome& outcome, int attempts, const RetryPolicy& retry,
                      const Environment& environment) {
  switch (outcome.kind()) {
    case Outcome::Kind::done: return {.action = Verdict::Action::ack};
    case Outcome::Kind::dead:
      return {.action = Verdict::Action::fail,
              .error = outcome.reason(),
              .reason = std::string{outcome.cause()}};
    case Outcome::Kind::postpone:
      return {.action = Verdict::Action::postpone,
              .until = std::clamp(outcome.until(), Instant{}, latest)};
    case Outcome::Kind::retry: break;
  }
  return retry_or_die(outcome.reason(), attempts, outcome.delay(), retry, environment);
}

}  // namespace

Verdict decide(const Outcome& outcome, int attempts, const RetryPolicy& retry,
               const Environment& environment) {
  Verdict verdict = decide_action(outcome, attempts, retry, environment);
  verdict.cause = outcome.log_cause();
  return verdict;
}

Verdict decide_unhandled(const Message& message, const DispatcherOptions& options,
                         const RetryPolicy& retry, const Environment& environment) {
  if (!message.handler.view().empty()) {
    std::string error = "no handler has the key '" + message.handler.str() + "'";
    if (options.unknown_key == UnknownKey::dead) {
      return {.action = Verdict::Action::fail,
              .error = std::move(error),
              .reason = "unknown_key",
              .handler_failed = false};
    }
    return retry_or_die(std::move(error), message.attempts, {}, retry, environment);
  }
  std::string error = "no handler for topic '" + message.topic.str() + "'";
  if (!options.missing.empty()) error += "; missing: " + options.missing;
  switch (options.no_handler) {
    case NoHandler::dead:
      return {.action = Verdict::Action::fail,
              .error = std::move(error),
              .reason = "no_handler",
              .handler_failed = false};
    case NoHandler::discard:
      return {.action = Verdict::Action::discard, .reason = std::move(error)};
    case NoHandler::complete: return {.action = Verdict::Action::ack};
    case NoHandler::retry: break;
  }
  return retry_or_die(std::move(error), message.attempts, {}, retry, environment);
}

Verdict postpone_verdict(const Message& message, Duration lease, Duration pause) {
  const Instant claimed_at = message.lease_until - lease;
  return {.action = Verdict::Action::postpone, .until = claimed_at + pause};
}

}  // namespace twinbox
