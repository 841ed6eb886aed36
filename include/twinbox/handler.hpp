// Handlers: the code that Twinbox calls for a message, and its outcomes.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "twinbox/message.hpp"
#include "twinbox/outcome.hpp"
#include "twinbox/session.hpp"
#include "twinbox/typed.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

// Patterns over topics: `order.*`, `order.#`.

/// A topic is words separated by dots. In a pattern the word `*` matches exactly one word, `#` any
/// number of words including none; every other word matches itself, byte by byte.
class TopicPattern {
 public:
  /// Throws std::invalid_argument, naming the pattern and the fix, for a text that no topic can be
  /// (see BoundedText; at most 500 characters), an empty word, and a `*` or `#` that is only a part
  /// of its word.
  explicit TopicPattern(std::string_view text);

  [[nodiscard]] bool matches(std::string_view topic) const noexcept;
  [[nodiscard]] const std::string& str() const noexcept { return text_; }

  bool operator==(const TopicPattern& other) const noexcept { return text_ == other.text_; }

 private:
  std::string text_;
  std::vector<std::string> words_;
};

/// How often the effects of a handler can happen.
enum class Guarantee {
  at_least_once,  ///< called until it succeeds; a crash during the call repeats it
  transactional,  ///< gets a Session: its writes and the acknowledgement commit together
  at_most_once,   ///< the delivery is marked before the call; a failed call is not repeated
                  ///< automatically
};

struct HandlerOptions {
  std::optional<RetryPolicy> retry = {};  ///< empty: the box's own
  /// A handler that exceeds it gets a stop request and counts as failed; empty: the box's
  /// handler_timeout.
  std::optional<Duration> timeout = {};
  std::vector<HandlerKey> legacy_keys = {};  ///< former keys whose open deliveries it still takes
  bool at_most_once = false;                 ///< see Guarantee
  bool release_claim_on_error =
      false;  ///< at most once: a failed call releases the delivery instead of leaving it marked
  std::size_t max_batch = 100;  ///< of a batch handler: messages per call
};

using MessageHandler = std::function<Outcome(const Message&, std::stop_token)>;
using TransactionalHandler = std::function<Outcome(Session&, const Message&, std::stop_token)>;
/// Several messages in one call, an outcome for each, in their order. An exception, or a wrong
/// number of outcomes, retries them all.
using BatchHandler = std::function<std::vector<Outcome>(std::span<const Message>, std::stop_token)>;
/// Called with the outcome of a failed call (Outcome::retry after an exception or a timeout, or the
/// handler's own outcome; Outcome::dead), before it is stored. The outcome that it returns replaces
/// the failure. If it throws, the failure counts unchanged (`on_failure_error` in the log). Called
/// from many threads at once.
using FailureHook = std::function<Outcome(const Message&, const Outcome& failure)>;
using HandlerCall = std::variant<MessageHandler, TransactionalHandler, BatchHandler>;

/// A callable of (const Message&), (const Message&, std::stop_token) or, transactional,
/// (Session&, const Message&) and (Session&, const Message&, std::stop_token), which returns
/// Outcome or void.
template <class F>
concept HandlerCallable =
    std::invocable<F&, const Message&> || std::invocable<F&, const Message&, std::stop_token> ||
    std::invocable<F&, Session&, const Message&> ||
    std::invocable<F&, Session&, const Message&, std::stop_token>;

/// One registered handler.
struct HandlerEntry {
  HandlerCall call;
  HandlerOptions options = {};

  template <class F>
  requires HandlerCallable<std::decay_t<F>>
  static HandlerEntry of(F&& handler, HandlerOptions options = {}) {
    return {wrap(std::forward<F>(handler)), std::move(options)};
  }

  [[nodiscard]] Guarantee guarantee() const noexcept;
  /// Throws std::out_of_range or UsageError, beginning with `what`, for invalid options.
  void check(const std::string& what) const;

 private:
  template <class F>
  static HandlerCall wrap(F&& handler) {
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
};

/// The handlers of a dispatcher. A second handler for the same topic, pattern or key is refused
/// (UsageError).
class Handlers {
 public:
  template <class F>
  requires HandlerCallable<std::decay_t<F>> Handlers& on(const Topic& topic, F&& handler,
                                                         HandlerOptions options = {}) {
    return add(topic, HandlerEntry::of(std::forward<F>(handler), std::move(options)));
  }
  /// The handler gets the payload as a T; see typed.hpp.
  template <Decodable T, class F>
  Handlers& on(const Topic& topic, F&& handler, HandlerOptions options = {}) {
    return on(topic, typed<T>(std::forward<F>(handler)), std::move(options));
  }
  /// For matching topics without a handler of their own; the pattern that was added first wins.
  template <class F>
  requires HandlerCallable<std::decay_t<F>> Handlers& on(const TopicPattern& pattern, F&& handler,
                                                         HandlerOptions options = {}) {
    return add(pattern, HandlerEntry::of(std::forward<F>(handler), std::move(options)));
  }
  /// For deliveries that were stored under this key.
  template <class F>
  requires HandlerCallable<std::decay_t<F>> Handlers& on_key(const HandlerKey& key, F&& handler,
                                                             HandlerOptions options = {}) {
    return add(key, HandlerEntry::of(std::forward<F>(handler), std::move(options)));
  }
  /// Several messages of the topic, or under the key, in one call; see BatchHandler.
  Handlers& on_batch(const Topic& topic, BatchHandler handler, HandlerOptions options = {}) {
    return add(topic, {std::move(handler), std::move(options)});
  }
  Handlers& on_batch(const HandlerKey& key, BatchHandler handler, HandlerOptions options = {}) {
    return add(key, {std::move(handler), std::move(options)});
  }
  Handlers& add(const Topic& topic, HandlerEntry entry);
  Handlers& add(const TopicPattern& pattern, HandlerEntry entry);
  Handlers& add(const HandlerKey& key, HandlerEntry entry);

  /// Null: no handler. A delivery with a key is found by key, one without by topic, then by
  /// pattern.
  [[nodiscard]] const HandlerEntry* find(const HandlerKey& key, const Topic& topic) const;
  /// Every key and legacy key.
  [[nodiscard]] std::vector<HandlerKey> keys() const;
  /// Every registered topic and pattern.
  [[nodiscard]] std::vector<std::string> topics() const;
  [[nodiscard]] std::vector<std::string> patterns() const;
  [[nodiscard]] bool any_transactional() const;
  /// The most messages that one call takes.
  [[nodiscard]] std::size_t largest_batch() const;
  /// One switch for all: every handler that is not transactional becomes at-most-once. Throws
  /// UsageError when there is a batch handler, which cannot. It sets no retention: marks stay for
  /// the retention of the box; at_most_once_box() keeps them for 7 days.
  void make_at_most_once(bool release_claim_on_error = false);

 private:
  template <class Self, class F>
  static void for_each(Self& self, F&& call);  ///< call(name, entry)

  std::map<std::string, HandlerEntry, std::less<>> by_topic_;
  std::vector<std::pair<TopicPattern, HandlerEntry>> by_pattern_;
  std::map<std::string, HandlerEntry, std::less<>> by_key_;
  std::map<std::string, std::string, std::less<>> legacy_;  ///< legacy key → key
};

/// The keys of open deliveries that no handler in `handlers` claims, each logged as
/// `unclaimed_key`: a delivery under such a key becomes dead as soon as it is claimed. Reads the
/// oldest and the newest ten thousand deliveries. For start-up. Throws DatabaseError.
std::vector<HandlerKey> unclaimed_keys(WorkQueue& queue, const Handlers& handlers);

}  // namespace twinbox
