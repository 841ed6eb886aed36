// The work of one box: claimed under a lease, settled by who holds it. Outbox and Inbox are both
// work queues.
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

// When a failed delivery is tried again, and when it is given up.

enum class Jitter {
  none,
  equal,  ///< half of the delay is certain, the other half is chance
};

/// Attempts are failures on record, counted after the increment: the first failure is attempt 1.
struct RetryPolicy {
  std::chrono::milliseconds first_delay = std::chrono::seconds{2};
  std::chrono::milliseconds max_delay = std::chrono::seconds{60};
  Jitter jitter = Jitter::none;
  /// Values below 1 count as 1.
  int max_attempts = 10;
  /// Takes the place of the doubling, of its cap and of its jitter. A negative answer counts as 0.
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

/// Where a box lives and how it behaves. Valid after construction of the box, or it throws.
struct BoxOptions {
  std::string schema = "infra";
  std::string table = {};      ///< empty: `outbox` or `inbox`
  bool deploy_schema = false;  ///< create or upgrade the tables when the box is opened
  RetryPolicy retry = RetryPolicy::standard();
  int max_expiries = 5;  ///< workers that may die holding a message before it is dead; 0: no limit
  /// How long finished messages are kept; empty: 7 days in an outbox, 30 days in an inbox;
  /// Duration::max(): for ever.
  std::optional<Duration> retention = {};
  /// Open deliveries of messages that were created longer ago become dead (`max_age`), however
  /// often they were postponed or retried. Leased ones and those that an operator has requeued are
  /// left alone; empty: no limit.
  std::optional<Duration> max_age = {};
  /// False: no call is at most once. Inbox::try_claim and AtMostOnce let every call through, and a
  /// dispatcher or an inline mode calls at-most-once handlers at least once; no mark is kept.
  bool gate = true;
  /// Of handlers without a timeout of their own; empty: none.
  std::optional<Duration> handler_timeout = {};
  /// True: a message that fails for ever holds its partition key, and those behind it wait until it
  /// is requeued and done, or discarded.
  bool hold_keys = false;
  /// An inbox on PostgreSQL. True: a call that takes something in fails with `not_synchronous`, and
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

/// Which deliveries a call is about: leases or claimed messages (their epoch must fit: a claim that
/// was taken over cannot be settled), or bare ids. Repeated ones count once.
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

/// What a dead letter says about itself.
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
/// loop: one more); with a leading Session it is part of the caller's. Throws DatabaseError;
/// std::out_of_range for a lease, delay or limit that is not above zero. Whatever a call does not
/// apply to changes nothing and is visible in the returned count.
class WorkQueue {
 public:
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Leases up to `limit` due messages to `owner`, oldest first. An empty result means nothing is
  /// due. `visible_from` passes over what became visible earlier.
  [[nodiscard]] std::vector<Message> claim(OwnerToken owner, Duration lease = default_lease,
                                           std::int64_t limit = default_batch,
                                           std::optional<Instant> visible_from = {});
  [[nodiscard]] std::vector<Message> claim(Session& session, OwnerToken owner, Duration lease,
                                           std::int64_t limit,
                                           std::optional<Instant> visible_from = {});

  /// Moves the end of leases that have not expired. Returns those that are still held.
  [[nodiscard]] std::vector<DeliveryId> renew(OwnerToken owner, const Deliveries& deliveries,
                                              Duration lease);
  [[nodiscard]] std::vector<DeliveryId> renew(Session& session, OwnerToken owner,
                                              const Deliveries& deliveries, Duration lease);

  /// Done. An expired lease still counts while nobody else has claimed the message. The outcome
  /// carries no error; failures before it are in the timeline (Admin::get).
  std::size_t ack(OwnerToken owner, const Deliveries& deliveries);
  std::size_t ack(Session& session, OwnerToken owner, const Deliveries& deliveries);

  /// Failed, to be tried again after `delay`, or after the retry policy's own delay.
  std::size_t abandon(OwnerToken owner, const Deliveries& deliveries, std::string_view error = {},
                      std::optional<Duration> delay = {});
  std::size_t abandon(Session& session, OwnerToken owner, const Deliveries& deliveries,
                      std::string_view error = {}, std::optional<Duration> delay = {});

  /// Failed for ever: kept as a dead letter.
  std::size_t fail(OwnerToken owner, const Deliveries& deliveries, std::string_view error,
                   const Failure& failure = {});
  std::size_t fail(Session& session, OwnerToken owner, const Deliveries& deliveries,
                   std::string_view error, const Failure& failure = {});

  /// Given back untried: visible at once; no attempt is counted.
  std::size_t release(OwnerToken owner, const Deliveries& deliveries);
  std::size_t release(Session& session, OwnerToken owner, const Deliveries& deliveries);
  /// Given back untried, visible at `until`; no attempt is counted.
  std::size_t postpone(OwnerToken owner, const Deliveries& deliveries, Instant until);
  std::size_t postpone(Session& session, OwnerToken owner, const Deliveries& deliveries,
                       Instant until);
  /// The operator's: they need no owner, pass over what somebody holds, and change no attempt.
  /// Visible at once, or at `until`.
  std::size_t release(const Deliveries& deliveries);
  std::size_t release(Session& session, const Deliveries& deliveries);
  std::size_t postpone(const Deliveries& deliveries, Instant until);
  std::size_t postpone(Session& session, const Deliveries& deliveries, Instant until);

  /// Settles the delivery under '' of each message id. Ids that several sources use are left alone
  /// and reported.
  SettledById ack(OwnerToken owner, std::span<const MessageId> ids);
  SettledById ack(Session& session, OwnerToken owner, std::span<const MessageId> ids);
  SettledById abandon(OwnerToken owner, std::span<const MessageId> ids, std::string_view error = {},
                      std::optional<Duration> delay = {});
  SettledById abandon(Session& session, OwnerToken owner, std::span<const MessageId> ids,
                      std::string_view error = {}, std::optional<Duration> delay = {});
  SettledById fail(OwnerToken owner, std::span<const MessageId> ids, std::string_view error);
  SettledById fail(Session& session, OwnerToken owner, std::span<const MessageId> ids,
                   std::string_view error);

  /// Clears expired leases, all of them, batch by batch, one transaction each. Housekeeping: claim
  /// takes expired leases by itself.
  std::size_t reap();
  /// The same; no batch begins once a stop is requested.
  std::size_t reap(const std::stop_token& stop);
  /// All of them, in the caller's transaction.
  std::size_t reap(Session& session);
  /// One batch.
  std::size_t reap(std::int64_t limit);
  std::size_t reap(Session& session, std::int64_t limit);
  /// Makes open work that is past its expiry, or of a message older than max_age, dead. What
  /// another transaction has locked is left for the next call.
  std::size_t expire(std::int64_t limit = 1000);
  std::size_t expire(Session& session, std::int64_t limit = 1000);
  /// All of it, batch by batch, one transaction each; no batch begins once a stop is requested.
  std::size_t expire(const std::stop_token& stop);
  /// Deletes finished messages that are older than the box's retention.
  std::size_t prune();
  /// Deletes old finished messages, batch by batch, one transaction each.
  std::size_t prune(const PruneOptions& options);
  /// The same; no batch begins once a stop is requested.
  std::size_t prune(const PruneOptions& options, const std::stop_token& stop);
  /// One batch, in the caller's transaction.
  std::size_t prune(Session& session, const PruneOptions& options);

  /// Lets waiting dispatchers of this process look at once. Needed only after a transaction of your
  /// own connection (SqliteSession and the like); every other commit does it by itself.
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
