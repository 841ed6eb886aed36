// Operations on a box: inspect, requeue, discard, edit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "twinbox/work_queue.hpp"

namespace twinbox {

enum class DeliveryState { ready, scheduled, leased, waiting, done, dead, discarded, marked, seen };

std::string_view to_string(DeliveryState state) noexcept;

/// A delivery for as long as it is known: its message's number and its handler.
struct DeliveryKey {
  std::int64_t number;
  HandlerKey handler = HandlerKey::by_topic();

  auto operator<=>(const DeliveryKey&) const = default;
};

/// The current state of a delivery. Fields that do not apply to its state are empty.
struct DeliveryView {
  DeliveryKey key;
  DeliveryState state;
  std::optional<DeliveryId> delivery_id;
  int attempts = 0;
  int expiries = 0;
  int requeues = 0;
  std::optional<Instant> visible_at;
  std::optional<Instant> lease_until;
  std::optional<Uuid> owner;  ///< the current holder, or the worker that finished it
  std::optional<Instant> finished_at;
  std::string reason;
  std::string last_error;
};

/// A message without its content.
struct MessageView {
  std::int64_t number;
  Source source;
  MessageId id;
  std::optional<Topic> topic;  ///< empty: only seen
  std::optional<CorrelationId> correlation_id;
  std::optional<PartitionKey> partition_key;
  std::optional<std::string> content_type;
  Instant created_at;
  Instant last_seen_at;
  std::optional<Instant> due_at;
  std::optional<Instant> expires_at;
  int seen_count;
  int content_version;
  bool has_content;   ///< false: only seen, or only known to the gate
  std::int64_t size;  ///< of the payload, in bytes
};

struct FailedAttempt {
  Instant failed_at;
  HandlerKey handler;
  int attempt;
  std::optional<Uuid> worker;
  std::string error;
};

/// A partition key that is on hold (BoxOptions::hold_keys): its dead letter must be requeued and
/// done, or discarded, before the deliveries behind it continue.
struct HeldKey {
  DeliveryKey delivery;
  PartitionKey key;
  Source source;  ///< of the dead letter
  MessageId id;
  bool requeued;         ///< it has been requeued and is not finished yet
  std::int64_t waiting;  ///< behind it, counted up to `max_counted`

  static constexpr std::int64_t max_counted = 1000;
};

/// A partition key whose first delivery is due far in the future: every delivery behind it waits
/// until then. Postpone the first one to an earlier time, or discard it. `far` lies below the limit
/// of the intakes (IntakeOptions::max_keyed_delay), so that no sender can block a key unnoticed.
struct BlockedKey {
  DeliveryKey delivery;
  PartitionKey key;
  Source source;  ///< of the first message
  MessageId id;
  Instant due_at;
  std::int64_t waiting;  ///< behind it, counted up to HeldKey::max_counted

  static constexpr Duration far = std::chrono::hours{1};  ///< ahead of now
};

/// One message with all its deliveries, attempts and held keys.
struct MessageDetail {
  static constexpr std::int64_t max_timeline = 200;  ///< in the timeline

  MessageView message;
  std::string payload;
  std::optional<std::string> headers;
  std::optional<ContentHash> hash;
  std::vector<DeliveryView> deliveries;
  std::vector<FailedAttempt> timeline;  ///< the latest attempts
  std::vector<HeldKey> held_keys;       ///< by this message's deliveries
  std::vector<BlockedKey> blocked_keys = {};
  bool more_attempts = false;  ///< there are earlier ones
};

/// Filters by state: one of DeliveryState, all open ones, or any.
enum class StateFilter {
  ready,
  scheduled,
  leased,
  waiting,
  done,
  dead,
  discarded,
  marked,
  seen,
  open,
  any
};

std::string_view to_string(StateFilter state) noexcept;
/// Empty: no such state.
std::optional<StateFilter> parse_state_filter(std::string_view name) noexcept;

/// Selects messages; all fields that are set must match.
struct Filter {
  StateFilter state = StateFilter::any;
  std::optional<Topic> topic = {};
  std::optional<HandlerKey> handler = {};
  std::optional<Source> source = {};
  std::optional<MessageId> id = {};
  std::optional<CorrelationId> correlation_id = {};
  std::optional<std::string> error_contains = {};
  std::optional<Instant> created_since = {};
  std::optional<Instant> created_before = {};
};

struct DeliveryEntry {
  MessageView message;
  DeliveryView delivery;
};

/// Newest first. `next` continues after this page; empty: the end.
struct Page {
  std::vector<DeliveryEntry> entries;
  std::optional<DeliveryKey> next;
};

struct StateCounts {
  std::int64_t ready = 0, scheduled = 0, leased = 0, waiting = 0, dead = 0;
  std::int64_t done = 0, discarded = 0, marked = 0,
               seen = 0;  ///< counted only with history
  /// How long the oldest due delivery has been waiting.
  std::optional<Duration> oldest_pending = {};
  /// Age of the oldest message with open deliveries, since its creation: a delivery that is
  /// postponed repeatedly shows only here.
  std::optional<Duration> oldest_open = {};

  [[nodiscard]] std::int64_t open() const noexcept { return ready + scheduled + leased + waiting; }
};

/// The names with the highest counts, up to the requested number.
struct Counts {
  static constexpr std::int64_t max_names = 200;  ///< by default

  /// All further names together.
  struct Other {
    std::int64_t names = 0;
    StateCounts counts = {};
  };

  StateCounts all;
  std::map<std::string, StateCounts> by_topic;
  std::map<std::string, StateCounts> by_handler;
  std::map<Uuid, std::int64_t> by_owner;  ///< current leases, by owner
  Other other_topics, other_handlers, other_owners;
};

/// Similar dead letters: the comparison ignores numbers, ids and quoted parts of the error.
struct DeadGroup {
  std::string topic;
  HandlerKey handler;
  std::string error;  ///< normalised
  std::int64_t count;
  Instant first_at;
  Instant last_at;
};

/// The largest groups, up to the requested number.
struct DeadGroups {
  static constexpr std::int64_t max_groups = 200;  ///< by default

  std::vector<DeadGroup> groups;
  /// Dead letters outside of these groups. With very many groups, some of these may belong to a
  /// group above.
  std::int64_t other = 0;
};

/// All counts that change constantly, as of one instant.
struct CountsSnapshot {
  Counts counts;
  DeadGroups dead;
  std::vector<HeldKey> held_keys;        ///< the oldest hundred
  std::vector<BlockedKey> blocked_keys;  ///< the hundred with the latest due times
};

/// Options of an operation: its limit, its operator and its reason.
struct Operation {
  std::string actor = {};
  std::string reason = {};
  std::int64_t limit = INT64_MAX;  ///< at most this many deliveries
  std::int64_t batch = 500;        ///< per transaction
  bool dry_run = false;            ///< only count
  /// Chosen by the caller, at most 200 characters, unique in the box. Repeating an operation under
  /// its id changes nothing twice: a finished one returns the same result, and an interrupted one
  /// continues where it stopped, and touches nothing that died after it had begun. A different
  /// operation under the id is refused (UsageError). A dry run needs none.
  std::string operation_id = {};
  /// Called after each batch with the number of changes so far; false: the operation stops there.
  std::function<bool(std::size_t changed)> on_progress = {};
};

/// An entry of the audit: what an operator did, and its progress.
struct AuditEntry {
  std::int64_t id;
  std::string action;  ///< requeue, discard, postpone, prune, edit
  std::string actor;
  std::string reason;
  std::string operation_id;            ///< empty: the caller gave none
  std::optional<std::int64_t> number;  ///< of the message, for an operation on one
  std::int64_t affected;               ///< deliveries, or messages
  Instant started_at;
  Instant at;     ///< of its last batch
  bool finished;  ///< false: it is running, or was interrupted
};

/// Newest first. `next` continues after this page; empty: the end.
struct AuditPage {
  std::vector<AuditEntry> entries;
  std::optional<std::int64_t> next;
};

/// A delay from now, by the database's clock, or an instant.
using When = std::variant<Duration, Instant>;

/// The text of an error without the parts that differ between occurrences.
std::string normalise_error(std::string_view error);

/// Thread-safe. Reads without blocking any worker; operations run in batches, one transaction each.
/// With a leading Session an operation is a part of your transaction, as a whole: all its batches,
/// its audit entry and its operation id. Set a limit: all rows that it touches stay locked until
/// you commit. A rollback undoes this call; an operation that was begun earlier keeps its earlier
/// progress. The views of many messages (counts, list, groups, counts_snapshot, held keys, audit)
/// show committed data only and have no such form.
class Admin {
 public:
  /// `queue` must outlive it.
  explicit Admin(WorkQueue& queue);

  /// `include_history` also counts finished deliveries, which reads the whole history. `names`: how
  /// many topics, handlers and owners are counted by name.
  [[nodiscard]] Counts counts(bool include_history = false, std::int64_t names = Counts::max_names);
  [[nodiscard]] Page list(const Filter& filter, std::int64_t limit = 50,
                          const std::optional<DeliveryKey>& after = {});
  [[nodiscard]] std::optional<MessageDetail> get(const MessageKey& key);
  [[nodiscard]] std::optional<MessageDetail> get(Session& session, const MessageKey& key);
  /// By id alone: throws UsageError naming the sources when several use the id.
  [[nodiscard]] std::optional<MessageDetail> get(const MessageId& id);
  [[nodiscard]] std::optional<MessageDetail> get(Session& session, const MessageId& id);
  [[nodiscard]] DeadGroups dead_groups(std::int64_t limit = DeadGroups::max_groups);
  [[nodiscard]] CountsSnapshot counts_snapshot(std::int64_t names = Counts::max_names,
                                               std::int64_t groups = DeadGroups::max_groups);
  /// The keys that the oldest messages hold first.
  [[nodiscard]] std::vector<HeldKey> held_keys(std::int64_t limit = 50);
  /// The keys with the latest due times first.
  [[nodiscard]] std::vector<BlockedKey> blocked_keys(std::int64_t limit = 50);

  /// Dead becomes ready again, after `delay`: attempts become 0, error and a past expiry are
  /// cleared. A delivery that holds its partition key precedes all waiting ones, any other goes
  /// behind them. Returns how many.
  std::size_t requeue(std::span<const DeliveryKey> deliveries, Duration delay = {},
                      const Operation& operation = {});
  std::size_t requeue(Session& session, std::span<const DeliveryKey> deliveries,
                      Duration delay = {}, const Operation& operation = {});
  std::size_t requeue(const Filter& filter, Duration delay = {}, const Operation& operation = {});
  std::size_t requeue(Session& session, const Filter& filter, Duration delay = {},
                      const Operation& operation = {});
  /// Open or dead becomes discarded; the lease of a worker is lost. A reason is required, except
  /// for a dry run.
  std::size_t discard(std::span<const DeliveryKey> deliveries, const Operation& operation);
  std::size_t discard(Session& session, std::span<const DeliveryKey> deliveries,
                      const Operation& operation);
  /// The filter must name a state, so that open deliveries are never discarded by accident.
  std::size_t discard(const Filter& filter, const Operation& operation);
  std::size_t discard(Session& session, const Filter& filter, const Operation& operation);
  /// Ready and scheduled deliveries become due at `when`; leased and waiting ones and all attempts
  /// are unchanged. Deliveries behind one under its partition key wait with it. A past time makes
  /// them due immediately. Without a state, the filter selects both.
  std::size_t postpone(std::span<const DeliveryKey> deliveries, When when,
                       const Operation& operation = {});
  std::size_t postpone(Session& session, std::span<const DeliveryKey> deliveries, When when,
                       const Operation& operation = {});
  std::size_t postpone(const Filter& filter, When when, const Operation& operation = {});
  std::size_t postpone(Session& session, const Filter& filter, When when,
                       const Operation& operation = {});
  /// Requeues, or discards, a whole group.
  std::size_t requeue(const DeadGroup& group, Duration delay = {}, const Operation& operation = {});
  std::size_t requeue(Session& session, const DeadGroup& group, Duration delay = {},
                      const Operation& operation = {});
  std::size_t discard(const DeadGroup& group, const Operation& operation);
  std::size_t discard(Session& session, const DeadGroup& group, const Operation& operation);

  /// Deletes whole messages whose every delivery is done, discarded or marked, whatever their age.
  /// Returns how many messages.
  std::size_t prune(std::span<const std::int64_t> numbers, const Operation& operation = {});
  std::size_t prune(Session& session, std::span<const std::int64_t> numbers,
                    const Operation& operation = {});
  std::size_t prune(const Filter& filter, const Operation& operation = {});
  std::size_t prune(Session& session, const Filter& filter, const Operation& operation = {});

  /// Replaces the content of a message with open or dead deliveries, none of them leased; the audit
  /// keeps the earlier content.
  struct Edit {
    std::optional<std::string> payload = {};
    std::optional<std::string> headers = {};
    std::optional<std::string> content_type = {};
    std::optional<int> content_version = {};  ///< only if it still is this one
    bool requeue = false;                     ///< its dead deliveries, in the same transaction
  };
  struct Edited {
    bool changed;                        ///< false: it was in another state or version
    std::optional<int> content_version;  ///< the current version; empty: no such message

    explicit operator bool() const noexcept { return changed; }
  };
  Edited edit(std::int64_t number, const Edit& change, const Operation& operation = {});
  Edited edit(Session& session, std::int64_t number, const Edit& change,
              const Operation& operation = {});

  /// Empty: no operation was requested under this id.
  [[nodiscard]] std::optional<AuditEntry> operation(std::string_view id);
  [[nodiscard]] AuditPage audit(std::int64_t limit = 50, std::optional<std::int64_t> after = {});

 private:
  WorkQueue& queue_;
};

}  // namespace twinbox
