// Decides how to settle a message after its handler has answered. Pure.
#pragma once

#include <optional>
#include <string>

#include "twinbox/dispatcher.hpp"

namespace twinbox {

struct Verdict {
  enum class Action { ack, abandon, fail, postpone, release, discard };

  Action action;
  std::string error = {};
  std::string reason = {};             ///< of a dead letter
  std::optional<LogCause> cause = {};  ///< additional fields for the log
  std::optional<Duration> delay = {};  ///< of abandon
  Instant until = {};                  ///< of postpone
  bool handler_failed = true;          ///< fail: counts an attempt
  bool marked = false;  ///< at most once: it is of a mark, there is no lease any more
};

/// `attempts`: recorded failures before this call.
Verdict decide(const Outcome& outcome, int attempts, const RetryPolicy& retry,
               const Environment& environment);

/// The message has no handler.
Verdict decide_unhandled(const Message& message, const DispatcherOptions& options,
                         const RetryPolicy& retry, const Environment& environment);

/// Postponed by `pause` after its claim, under a lease of that length; no attempt is counted.
Verdict postpone_verdict(const Message& message, Duration lease,
                         Duration pause = std::chrono::seconds{15});

}  // namespace twinbox
