// The inbox: a message that arrives twice is handled once.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "twinbox/message.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

class MessageWriter;

enum class MessageState { seen, open, done, dead };

std::string_view to_string(MessageState state) noexcept;

/// The result of observe.
struct Observed {
  bool done;
  bool conflict;  ///< same id, other hash than before
};

/// Thread-safe.
class Inbox : public WorkQueue {
 public:
  /// Opens the inbox of `database`, which must outlive it. Throws as Outbox does.
  explicit Inbox(Database& database, BoxOptions options = {});
  ~Inbox();

  /// Stores the message and its delivery, unless it is known; durable once it returns, in a
  /// transaction that concurrent callers share.
  Accepted accept(const Arrival& arrival);
  /// One delivery per handler, in a transaction of its own. Ids are at most 200 characters here.
  Accepted accept(const Arrival& arrival, std::span<const HandlerName> handlers);
  /// All or none; a result each.
  std::vector<Accepted> accept(std::span<const Arrival> arrivals,
                               std::span<const HandlerName> handlers = {});
  Accepted accept(Session& session, const Arrival& arrival,
                  std::span<const HandlerName> handlers = {});
  std::vector<Accepted> accept(Session& session, std::span<const Arrival> arrivals,
                               std::span<const HandlerName> handlers = {});

  /// Accepts the message and leases its due deliveries to the caller, for handling it in the
  /// request. Leases nothing where `keep_first` has kept other content (a conflict).
  struct AcceptedAndClaimed {
    Accepted accepted;
    std::vector<Message>
        messages;  ///< empty: another worker holds it, it is finished or not due, or a conflict
  };
  [[nodiscard]] AcceptedAndClaimed accept_and_claim(const Arrival& arrival, OwnerToken owner,
                                                    Duration lease,
                                                    std::span<const HandlerName> handlers = {});
  [[nodiscard]] AcceptedAndClaimed accept_and_claim(Session& session, const Arrival& arrival,
                                                    OwnerToken owner, Duration lease,
                                                    std::span<const HandlerName> handlers = {});

  /// For compile errors: names the field that is wrong; see twinbox::fields.
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  Accepted accept(const T&, std::span<const HandlerName> = {}) {
    return fields::refuse<T, Accepted>();
  }
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  Accepted accept(Session&, const T&, std::span<const HandlerName> = {}) {
    return fields::refuse<T, Accepted>();
  }
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  AcceptedAndClaimed accept_and_claim(const T&, OwnerToken, Duration,
                                      std::span<const HandlerName> = {}) {
    return fields::refuse<T, AcceptedAndClaimed>();
  }
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  AcceptedAndClaimed accept_and_claim(Session&, const T&, OwnerToken, Duration,
                                      std::span<const HandlerName> = {}) {
    return fields::refuse<T, AcceptedAndClaimed>();
  }
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  bool mark_processed(const T&) {
    return fields::refuse<T, bool>();
  }
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  bool mark_processed(Session&, const T&) {
    return fields::refuse<T, bool>();
  }

  /// Records that the message has been seen; true iff it is done.
  [[nodiscard]] bool already_processed(const MessageKey& key,
                                       const std::optional<ContentHash>& hash = {});
  [[nodiscard]] bool already_processed(Session& session, const MessageKey& key,
                                       const std::optional<ContentHash>& hash = {});
  Observed observe(const MessageKey& key, const std::optional<ContentHash>& hash = {});
  Observed observe(Session& session, const MessageKey& key,
                   const std::optional<ContentHash>& hash = {});

  /// True iff the message is done. Reads only.
  [[nodiscard]] bool has_processed(const MessageKey& key);
  [[nodiscard]] bool has_processed(Session& session, const MessageKey& key);
  /// Empty: unknown.
  [[nodiscard]] std::optional<MessageState> state(const MessageKey& key);
  [[nodiscard]] std::optional<MessageState> state(Session& session, const MessageKey& key);

  /// Takes a seen message for the caller, which then handles it. False: it was not in that state.
  [[nodiscard]] bool mark_processing(const MessageKey& key);
  [[nodiscard]] bool mark_processing(Session& session, const MessageKey& key);
  /// Seen, open or dead becomes done; the lease of a worker is lost.
  bool mark_processed(const MessageKey& key);
  bool mark_processed(Session& session, const MessageKey& key);
  /// The same, and an unknown message is stored as done.
  bool mark_processed(const Arrival& arrival);
  bool mark_processed(Session& session, const Arrival& arrival);
  /// Seen or open becomes dead; done stays done.
  bool mark_dead(const MessageKey& key, std::string_view error = {});
  bool mark_dead(Session& session, const MessageKey& key, std::string_view error = {});

  /// The at-most-once gate: true for exactly one caller per (message, handler), durably, before the
  /// caller handles the message. With BoxOptions{.gate = false}: true for every caller, and no row
  /// is kept.
  [[nodiscard]] bool try_claim(const MessageKey& key, const Topic& type,
                               const HandlerKey& handler = HandlerKey::by_topic());
  [[nodiscard]] bool try_claim(Session& session, const MessageKey& key, const Topic& type,
                               const HandlerKey& handler = HandlerKey::by_topic());
  /// Reverts a claim of the gate, so that a redelivery may handle the message.
  bool release_claim(const MessageKey& key, const HandlerKey& handler = HandlerKey::by_topic());
  bool release_claim(Session& session, const MessageKey& key,
                     const HandlerKey& handler = HandlerKey::by_topic());

 private:
  std::unique_ptr<MessageWriter> writer_;
};

// Makes any consumer handle each message at most once: a broker's own client, a web framework, a
// cron job.

struct AtMostOnceOptions {
  HandlerKey handler = HandlerKey::by_topic();  ///< each handler of a message has its own claim
  /// A failed call releases its claim, so that a redelivery handles the message again. Otherwise
  /// the claim stays, and the message is not handled again.
  bool release_claim_on_error = false;
  bool enabled = true;  ///< false: every call is let through, and no row is kept
};

/// A gate in front of a handler: `Inbox::try_claim` before the call, `Inbox::release_claim` after
/// one that failed. It sets no retention: claims stay for the retention of the inbox;
/// at_most_once_box() keeps them for 7 days. Thread-safe.
class AtMostOnce {
 public:
  using Handler = std::function<void()>;

  /// `inbox` must outlive it. With BoxOptions{.gate = false} every call is let through.
  explicit AtMostOnce(Inbox& inbox, AtMostOnceOptions options = {});

  /// Calls `handler` unless an earlier call for this message was let through; false: one was. The
  /// claim is durable before the call, so a crash during the call does not repeat it. The handler's
  /// exceptions propagate to the caller; a claim that then cannot be released is logged as
  /// `release_claim_failed` and stays. Throws DatabaseError when the claim fails.
  bool run(const MessageKey& key, const Topic& type, const Handler& handler);
  bool run(const MessageKey& key, const Handler& handler);  ///< of the type `-`

  /// The same as a part of your transaction: the claim and the handler's writes commit together. A
  /// rollback after an exception also undoes the claim.
  bool run(Session& session, const MessageKey& key, const Topic& type, const Handler& handler);
  bool run(Session& session, const MessageKey& key, const Handler& handler);

 private:
  template <class Claim, class Release>
  bool call(const MessageKey& key, const Handler& handler, Claim&& claim, Release&& release);

  Inbox* inbox_;
  AtMostOnceOptions options_;
};

}  // namespace twinbox
