// Handlers: what is called for a message, and what they answer.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "twinbox/message.hpp"
#include "twinbox/retry.hpp"
#include "twinbox/session.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

/// What a handler says about a message. An exception means retry with the exception's text.
class Outcome {
 public:
  enum class Kind { done, retry, dead, postpone };

  static Outcome done() { return Outcome{Kind::done}; }
  /// To be tried again, after `delay` or by the retry policy; counts as a failed attempt.
  static Outcome retry(std::string reason, std::optional<Duration> delay = {}) {
    return Outcome{Kind::retry, std::move(reason), delay};
  }
  /// Can never succeed: kept as a dead letter.
  static Outcome dead(std::string reason) { return Outcome{Kind::dead, std::move(reason)}; }
  /// Not now; no attempt is counted.
  static Outcome postpone(Instant until) { return Outcome{Kind::postpone, {}, {}, until}; }

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  [[nodiscard]] const std::optional<Duration>& delay() const noexcept { return delay_; }
  [[nodiscard]] Instant until() const noexcept { return until_; }

 private:
  explicit Outcome(Kind kind, std::string reason = {}, std::optional<Duration> delay = {},
                   Instant until = {})
      : kind_(kind), reason_(std::move(reason)), delay_(delay), until_(until) {}

  Kind kind_;
  std::string reason_;
  std::optional<Duration> delay_;
  Instant until_;
};

/// How often the effects of a handler can happen.
enum class Guarantee {
  at_least_once,  ///< called until it succeeds; a crash in between calls it again
  transactional,  ///< gets a Session: its writes and the end of the duty commit together
  at_most_once,   ///< the duty is marked before the call; what fails is not repeated by itself
};

struct HandlerOptions {
  std::optional<RetryPolicy> retry = {};  ///< empty: the box's own
  std::optional<Duration> timeout =
      {};  ///< a handler past it is told to stop, and counts as failed
  std::vector<HandlerKey> legacy_keys = {};  ///< former keys whose open duties it still takes
  bool at_most_once = false;                 ///< see Guarantee
  bool release_claim_on_error =
      false;  ///< at most once: a failed call is put back instead of left marked
};

using MessageHandler = std::function<Outcome(const Message&, std::stop_token)>;
using TransactionalHandler = std::function<Outcome(Session&, const Message&, std::stop_token)>;

/// One registered handler.
struct HandlerEntry {
  std::variant<MessageHandler, TransactionalHandler> call;
  HandlerOptions options;

  [[nodiscard]] Guarantee guarantee() const noexcept;
};

/// Who handles what. A second handler for the same topic or key is refused (UsageError).
class Handlers {
 public:
  /// A callable of (const Message&), (const Message&, std::stop_token) or, transactional,
  /// (Session&, const Message&) and (Session&, const Message&, std::stop_token), which returns
  /// Outcome or void.
  template <class F>
  Handlers& on(const Topic& topic, F&& handler, HandlerOptions options = {}) {
    return add_topic(topic, {wrap(std::forward<F>(handler)), std::move(options)});
  }
  /// For duties that were written under this key.
  template <class F>
  Handlers& on_key(const HandlerKey& key, F&& handler, HandlerOptions options = {}) {
    return add_key(key, {wrap(std::forward<F>(handler)), std::move(options)});
  }

  /// Null: nobody. A duty with a key is found by key, one without by topic.
  [[nodiscard]] const HandlerEntry* find(const HandlerKey& key, const Topic& topic) const;
  /// Every key and legacy key.
  [[nodiscard]] std::vector<HandlerKey> keys() const;
  /// One switch for all: every handler that is not transactional becomes at-most-once.
  void make_at_most_once(bool release_claim_on_error = false);

 private:
  using Call = std::variant<MessageHandler, TransactionalHandler>;

  template <class F>
  static Call wrap(F&& handler) {
    using H = std::decay_t<F>;
    if constexpr (std::invocable<H&, Session&, const Message&, std::stop_token>) {
      return TransactionalHandler{[h = H{std::forward<F>(handler)}](Session& session,
                                                                    const Message& message,
                                                                    std::stop_token stop) mutable {
        return outcome_of([&] { return h(session, message, std::move(stop)); });
      }};
    } else if constexpr (std::invocable<H&, Session&, const Message&>) {
      return TransactionalHandler{
          [h = H{std::forward<F>(handler)}](Session& session, const Message& message,
                                            const std::stop_token&) mutable {
            return outcome_of([&] { return h(session, message); });
          }};
    } else if constexpr (std::invocable<H&, const Message&, std::stop_token>) {
      return MessageHandler{
          [h = H{std::forward<F>(handler)}](const Message& message, std::stop_token stop) mutable {
            return outcome_of([&] { return h(message, std::move(stop)); });
          }};
    } else {
      static_assert(std::invocable<H&, const Message&>,
                    "a handler takes a message; see Handlers::on");
      return MessageHandler{[h = H{std::forward<F>(handler)}](const Message& message,
                                                              const std::stop_token&) mutable {
        return outcome_of([&] { return h(message); });
      }};
    }
  }

  template <class F>
  static Outcome outcome_of(F&& call) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      call();
      return Outcome::done();
    } else {
      return call();
    }
  }

  Handlers& add_topic(const Topic& topic, HandlerEntry entry);
  Handlers& add_key(const HandlerKey& key, HandlerEntry entry);

  std::map<std::string, HandlerEntry, std::less<>> by_topic_;
  std::map<std::string, HandlerEntry, std::less<>> by_key_;
  std::map<std::string, std::string, std::less<>> legacy_;  ///< legacy key → key
};

}  // namespace twinbox
