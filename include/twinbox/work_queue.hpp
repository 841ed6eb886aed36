// The deliveries of one box: claimed under a lease, settled by its holder. Outbox and Inbox are
// both work queues.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/database.hpp"
#include "twinbox/environment.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

// When to retry a failed delivery, and when to give up.

enum class Jitter {
  none,
  equal,  ///< half of the delay is fixed, the other half is random
};

/// Attempts are recorded failures, counted after the increment: the first failure is attempt 1.
struct RetryPolicy {
  std::chrono::milliseconds first_delay = std::chrono::seconds{2};
  std::chrono::milliseconds max_delay = std::chrono::seconds{60};
  Jitter jitter = Jitter::none;
  /// Values below 1 count as 1.
  int max_attempts = 10;
  /// Replaces the doubling, its cap and its jitter. A negative result counts as 0.
  std::function<std::chrono::milliseconds(int attempts)> custom = {};

  /// 2, 4, 8 … s, at most 60 s, 10 attempts.
  static RetryPolicy standard();
  /// 2, 4, 8 … s, at most 5 min, equal jitter, 5 attempts.
  static RetryPolicy per_handler();
  /// 1, 2, 4 … min, at most 1 h, 5 attempts.
  static RetryPolicy event_bus();

  /// How long to wait after failure number `attempts`, which is at least 1.
  [[nodiscard]] std::chrono::milliseconds delay(int attempts, const Environment& environment) const;
  /// True when failure number `attempts` was the last one allowed.
  [[nodiscard]] bool exhausted(int attempts) const noexcept;
  /// Throws std::out_of_range with the field and its bound: 0 ≤ first_delay ≤ max_delay ≤ 365 days.
  void check() const;
};

class Box;  // one box's tables and statements

inline constexpr Duration default_lease = std::chrono::seconds{30};
inline constexpr std::int64_t default_batch = 50;

/// The tables of a box and its behavior. Valid after construction of the box, or it throws.
struct BoxOptions {
  std::string schema = "infra";
  std::string table = {};      ///< empty: `outbox` or `inbox`
  bool deploy_schema = false;  ///< create or upgrade the tables when the box is opened
  RetryPolicy retry = RetryPolicy::standard();
  int max_expiries = 5;  ///< workers that may die holding a message before it is dead; 0: no limit
  /// How long finished messages are kept; empty: 7 days in an outbox, 30 days in an inbox;
  /// Duration::max(): forever.
  std::optional<Duration> retention = {};
  /// Open deliveries of messages that were created longer ago become dead (`max_age`), however
  /// often they were postponed or retried. Leased deliveries and those that an operator has
  /// requeued are exempt; empty: no limit.
  std::optional<Duration> max_age = {};
  /// False: no call is at most once. Inbox::try_claim and AtMostOnce let every call through, a
  /// dispatcher or an inline mode calls at-most-once handlers at least once, and no mark is kept.
  bool gate = true;
  /// For handlers without their own timeout; empty: none.
  std::optional<Duration> handler_timeout = {};
  /// True: a message that becomes dead holds its partition key: later ones wait until it is
  /// requeued and done, or discarded.
  bool hold_keys = false;
  /// An inbox on PostgreSQL. True: a call that accepts messages fails with `not_synchronous`, and
  /// writes nothing, unless its commit waits for a standby: synchronous_standby_names is not empty,
  /// and synchronous_commit is neither `off` nor `local`.
  bool require_synchronous = false;
};

/// Finished messages older than `older_than` are deleted; Duration::max(): none. Values below zero
/// are refused.
struct PruneOptions {
  Duration older_than;
  std::int64_t batch = 1000;       ///< messages per transaction
  std::int64_t limit = INT64_MAX;  ///< messages per call
  bool include_dead = false;
  bool include_seen = false;
};

/// Selects deliveries: by leases or claimed messages (their epoch must match: a claim that was
/// taken over cannot be settled), or by ids. Duplicates count once.
class Deliveries {
 public:
  Deliveries(std::span<const Lease> leases);      // NOLINT(google-explicit-constructor)
  Deliveries(std::span<const Message> messages);  // NOLINT(google-explicit-constructor)
  Deliveries(std::span<const DeliveryId> ids);    // NOLINT(google-explicit-constructor)
  Deliveries(const std::vector<Lease>& leases) : Deliveries(std::span{leases}) {}
  Deliveries(const std::vector<Message>& messages) : Deliveries(std::span{messages}) {}
  Deliveries(const std::vector<DeliveryId>& ids) : Deliveries(std::span{ids}) {}
  Deliveries(const Message& message) : Deliveries(std::span{&message, 1}) {}
  Deliveries(const Lease& lease) : Deliveries(std::span{&lease, 1}) {}
  Deliveries(const DeliveryId& id) : Deliveries(std::span{&id, 1}) {}

  [[nodiscard]] bool empty() const noexcept { return ids_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return ids_.size(); }

 private:
  friend struct DeliveryArgs;
  void add(const Lease& lease);
  void make_unique();

  std::vector<Value> ids_;
  std::vector<Value> epochs_;
  bool check_epoch_ = true;
};

/// The text of a dead letter.
struct Failure {
  std::string reason = "failed";
  bool handler_failed = true;  ///< counts an attempt and keeps a line in the timeline
};

/// A settle by bare message ids: what changed, and the ids that more than one source uses.
struct SettledById {
  std::size_t changed = 0;
  std::vector<MessageId> ambiguous = {};
};

/// Thread-safe. Every call is one transaction (prune: one per batch; a claim that ends a crash
/// loop: one more); with a leading Session it is part of yours. Throws DatabaseError;
/// std::out_of_range for a lease, delay or limit that is not above zero. Deliveries that a call
/// does not apply to are unchanged, and the returned count excludes them.
class WorkQueue {
 public:
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Leases up to `limit` due messages to `owner`, oldest first. An empty result means nothing is
  /// due. `visible_from` skips messages that became visible earlier.
  [[nodiscard]] std::vector<Message> claim(OwnerToken owner, Duration lease = default_lease,
                                           std::int64_t limit = default_batch,
                                           std::optional<Instant> visible_from = {});
  [[nodiscard]] std::vector<Message> claim(Session& session, OwnerToken owner, Duration lease,
                                           std::int64_t limit,
                                           std::optional<Instant> visible_from = {});

  /// Extends leases that have not expired. Returns those that are still held.
  [[nodiscard]] std::vector<DeliveryId> renew(OwnerToken owner, const Deliveries& deliveries,
                                              Duration lease);
  [[nodiscard]] std::vector<DeliveryId> renew(Session& session, OwnerToken owner,
                                              const Deliveries& deliveries, Duration lease);

  /// Done. An expired lease still counts until another worker has claimed the message. The outcome
  /// has no error; earlier failures are in the timeline (Admin::get).
  std::size_t ack(OwnerToken owner, const Deliveries& deliveries);
  std::size_t ack(Session& session, OwnerToken owner, const Deliveries& deliveries);

  /// Failed: retry it after `delay`, or after the retry policy's own delay.
  std::size_t abandon(OwnerToken owner, const Deliveries& deliveries, std::string_view error = {},
                      std::optional<Duration> delay = {});
  std::size_t abandon(Session& session, OwnerToken owner, const Deliveries& deliveries,
                      std::string_view error = {}, std::optional<Duration> delay = {});

  /// Failed for good: it becomes a dead letter.
  std::size_t fail(OwnerToken owner, const Deliveries& deliveries, std::string_view error,
                   const Failure& failure = {});
  std::size_t fail(Session& session, OwnerToken owner, const Deliveries& deliveries,
                   std::string_view error, const Failure& failure = {});

  /// Released without an attempt: visible immediately.
  std::size_t release(OwnerToken owner, const Deliveries& deliveries);
  std::size_t release(Session& session, OwnerToken owner, const Deliveries& deliveries);
  /// Released without an attempt, visible at `until`.
  std::size_t postpone(OwnerToken owner, const Deliveries& deliveries, Instant until);
  std::size_t postpone(Session& session, OwnerToken owner, const Deliveries& deliveries,
                       Instant until);
  /// The operator's forms: they need no owner, skip leased deliveries, and change no attempt count.
  /// Visible immediately, or at `until`.
  std::size_t release(const Deliveries& deliveries);
  std::size_t release(Session& session, const Deliveries& deliveries);
  std::size_t postpone(const Deliveries& deliveries, Instant until);
  std::size_t postpone(Session& session, const Deliveries& deliveries, Instant until);

  /// Settles the delivery without a handler key of each message id. Ids that several sources use
  /// are not settled, and reported.
  SettledById ack(OwnerToken owner, std::span<const MessageId> ids);
  SettledById ack(Session& session, OwnerToken owner, std::span<const MessageId> ids);
  SettledById abandon(OwnerToken owner, std::span<const MessageId> ids, std::string_view error = {},
                      std::optional<Duration> delay = {});
  SettledById abandon(Session& session, OwnerToken owner, std::span<const MessageId> ids,
                      std::string_view error = {}, std::optional<Duration> delay = {});
  SettledById fail(OwnerToken owner, std::span<const MessageId> ids, std::string_view error);
  SettledById fail(Session& session, OwnerToken owner, std::span<const MessageId> ids,
                   std::string_view error);

  /// Clears all expired leases, batch by batch, one transaction each. Housekeeping: claim takes
  /// expired leases by itself.
  std::size_t reap();
  /// The same; no batch begins once a stop is requested.
  std::size_t reap(const std::stop_token& stop);
  /// All of them, in your transaction.
  std::size_t reap(Session& session);
  /// One batch.
  std::size_t reap(std::int64_t limit);
  std::size_t reap(Session& session, std::int64_t limit);
  /// Makes open deliveries past their expiry, or of messages older than max_age, dead. Rows that
  /// another transaction has locked wait for the next call.
  std::size_t expire(std::int64_t limit = 1000);
  std::size_t expire(Session& session, std::int64_t limit = 1000);
  /// All of them, batch by batch, one transaction each; no batch begins once a stop is requested.
  std::size_t expire(const std::stop_token& stop);
  /// Deletes finished messages that are older than the box's retention.
  std::size_t prune();
  /// Deletes old finished messages, batch by batch, one transaction each.
  std::size_t prune(const PruneOptions& options);
  /// The same; no batch begins once a stop is requested.
  std::size_t prune(const PruneOptions& options, const std::stop_token& stop);
  /// One batch, in your transaction.
  std::size_t prune(Session& session, const PruneOptions& options);

  /// Wakes waiting dispatchers of this process. Needed only after a transaction of your own
  /// connection (SqliteSession and the like); every other commit wakes them by itself.
  void wake() const;

  [[nodiscard]] Database& database() const noexcept;
  [[nodiscard]] const BoxOptions& options() const noexcept;

 protected:
  friend Box& box_of(const WorkQueue& queue) noexcept;
  explicit WorkQueue(std::unique_ptr<Box> box);
  ~WorkQueue();

  std::unique_ptr<Box> box_;
};

}  // namespace twinbox
