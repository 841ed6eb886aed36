// What a person does with a box: look, send again, throw away, correct.
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

/// One delivery as it stands. What does not apply to its state is empty.
struct DeliveryView {
  DeliveryKey key;
  DeliveryState state;
  std::optional<DeliveryId> delivery_id;
  int attempts = 0;
  int expiries = 0;
  int requeues = 0;
  std::optional<Instant> visible_at;
  std::optional<Instant> lease_until;
  std::optional<Uuid> owner;  ///< who holds it, or who finished it
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

/// A partition key that stands still (BoxOptions::hold_keys): its dead letter must be requeued and
/// done, or discarded, before those behind it go on.
struct HeldKey {
  DeliveryKey delivery;
  PartitionKey key;
  Source source;  ///< of the dead letter
  MessageId id;
  bool requeued;         ///< it is on its way again
  std::int64_t waiting;  ///< behind it, counted up to `max_counted`

  static constexpr std::int64_t max_counted = 1000;
};

/// A partition key whose first delivery is due far in the future: all that is behind it waits until
/// then. Postpone it to an earlier time, or discard it. `far` lies below what an intake accepts
/// (IntakeOptions::max_keyed_delay), so that no sender can block a key unseen.
struct BlockedKey {
  DeliveryKey delivery;
  PartitionKey key;
  Source source;  ///< of the first message
  MessageId id;
  Instant due_at;
  std::int64_t waiting;  ///< behind it, counted up to HeldKey::max_counted

  static constexpr Duration far = std::chrono::hours{1};  ///< ahead of now
};

/// One message with everything that is known about it.
struct MessageDetail {
  static constexpr std::int64_t max_timeline = 200;  ///< in the timeline

  MessageView message;
  std::string payload;
  std::optional<std::string> headers;
  std::optional<ContentHash> hash;
  std::vector<DeliveryView> deliveries;
  std::vector<FailedAttempt> timeline;  ///< the latest
  std::vector<HeldKey> held_keys;       ///< by this message's deliveries
  std::vector<BlockedKey> blocked_keys = {};
  bool more_attempts = false;  ///< there are earlier ones
};

/// States to look for: one of DeliveryState, all of the open ones, or any.
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
/// Empty: there is no such state.
std::optional<StateFilter> parse_state_filter(std::string_view name) noexcept;

/// What to look at or operate on; everything that is set must fit.
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

/// Newest first. `next` continues where this page ends; empty: there is no more.
struct Page {
  std::vector<DeliveryEntry> entries;
  std::optional<DeliveryKey> next;
};

struct StateCounts {
  std::int64_t ready = 0, scheduled = 0, leased = 0, waiting = 0, dead = 0;
  std::int64_t done = 0, discarded = 0, marked = 0,
               seen = 0;  ///< counted only when history is asked for
  /// How long the oldest delivery that is due has been waiting.
  std::optional<Duration> oldest_pending = {};
  /// Age of the oldest message with open deliveries, since its creation: one that is postponed
  /// again and again shows here only.
  std::optional<Duration> oldest_open = {};

  [[nodiscard]] std::int64_t open() const noexcept { return ready + scheduled + leased + waiting; }
};

/// The names with the most, as many as were asked for.
struct Counts {
  static constexpr std::int64_t max_names = 200;  ///< unless told

  /// All further names together.
  struct Other {
    std::int64_t names = 0;
    StateCounts counts = {};
  };

  StateCounts all;
  std::map<std::string, StateCounts> by_topic;
  std::map<std::string, StateCounts> by_handler;
  std::map<Uuid, std::int64_t> by_owner;  ///< leases that are held, by who holds them
  Other other_topics, other_handlers, other_owners;
};

/// Dead letters that look alike: numbers, ids and quoted parts of the error are left out of the
/// comparison.
struct DeadGroup {
  std::string topic;
  HandlerKey handler;
  std::string error;  ///< normalised
  std::int64_t count;
  Instant first_at;
  Instant last_at;
};

/// The largest groups, as many as were asked for.
struct DeadGroups {
  static constexpr std::int64_t max_groups = 200;  ///< unless told

  std::vector<DeadGroup> groups;
  /// Dead letters in none of them. Where there are very many groups, some of these may look like
  /// those of a group above.
  std::int64_t other = 0;
};

/// Everything that changes from hour to hour, as of one moment.
struct CountsSnapshot {
  Counts counts;
  DeadGroups dead;
  std::vector<HeldKey> held_keys;        ///< the oldest hundred
  std::vector<BlockedKey> blocked_keys;  ///< the hundred that are due last
};

/// An operation: how far it may go, who asked for it and why.
struct Operation {
  std::string actor = {};
  std::string reason = {};
  std::int64_t limit = INT64_MAX;  ///< at most so many deliveries
  std::int64_t batch = 500;        ///< per transaction
  bool dry_run = false;            ///< only count
  /// Made by the caller, at most 200 characters, unique in the box. The same operation again under
  /// its id does nothing twice: when it is finished the answer is the same, when it was cut off it
  /// goes on where it stopped, and touches nothing that died after it had begun. Another operation
  /// under the id is refused (UsageError). A dry run needs none.
  std::string operation_id = {};
  /// Told after each batch how many have been changed so far; false: it stops there.
  std::function<bool(std::size_t changed)> on_progress = {};
};

/// A line of the audit: what somebody did, and how far it has come.
struct AuditEntry {
  std::int64_t id;
  std::string action;  ///< requeue, discard, postpone, prune, edit
  std::string actor;
  std::string reason;
  std::string operation_id;            ///< empty: the caller gave none
  std::optional<std::int64_t> number;  ///< of the message, where it was one
  std::int64_t affected;               ///< deliveries, or messages
  Instant started_at;
  Instant at;     ///< of its last batch
  bool finished;  ///< false: it is under way, or was cut off
};

/// Newest first. `next` continues where this page ends; empty: there is no more.
struct AuditPage {
  std::vector<AuditEntry> entries;
  std::optional<std::int64_t> next;
};

/// So long from now, by the database's clock, or at an instant.
using When = std::variant<Duration, Instant>;

/// The text of an error without what differs from case to case.
std::string normalise_error(std::string_view error);

/// Thread-safe. Reads without stopping anybody; acts in batches, one transaction each. With a
/// leading Session an operation is a part of the caller's transaction, whole: as many batches as it
/// takes, its line in the audit and its operation id with them. Name a limit: all that it touches
/// stays locked until the caller commits. A rollback takes back what this call did; an operation
/// that had begun before stands where it stood. The views of many messages (counts, list, groups,
/// counts_snapshot, held keys, audit) show what is committed and have no such form.
class Admin {
 public:
  /// `queue` must outlive it.
  explicit Admin(WorkQueue& queue);

  /// `include_history` also counts what is finished, which reads the whole history. `names`: so
  /// many topics, handlers and owners are told apart.
  [[nodiscard]] Counts counts(bool include_history = false, std::int64_t names = Counts::max_names);
  [[nodiscard]] Page list(const Filter& filter, std::int64_t limit = 50,
                          const std::optional<DeliveryKey>& after = {});
  [[nodiscard]] std::optional<MessageDetail> get(const MessageKey& key);
  [[nodiscard]] std::optional<MessageDetail> get(Session& session, const MessageKey& key);
  /// By id alone: throws UsageError that names the sources when several know it.
  [[nodiscard]] std::optional<MessageDetail> get(const MessageId& id);
  [[nodiscard]] std::optional<MessageDetail> get(Session& session, const MessageId& id);
  [[nodiscard]] DeadGroups dead_groups(std::int64_t limit = DeadGroups::max_groups);
  [[nodiscard]] CountsSnapshot counts_snapshot(std::int64_t names = Counts::max_names,
                                               std::int64_t groups = DeadGroups::max_groups);
  /// Those that are held by the oldest messages first.
  [[nodiscard]] std::vector<HeldKey> held_keys(std::int64_t limit = 50);
  /// Those that are due last first.
  [[nodiscard]] std::vector<BlockedKey> blocked_keys(std::int64_t limit = 50);

  /// Dead becomes ready again, after `delay`: attempts 0, error and a past expiry cleared. One that
  /// holds its partition key goes before all that wait, any other behind them. Returns how many.
  std::size_t requeue(std::span<const DeliveryKey> deliveries, Duration delay = {},
                      const Operation& operation = {});
  std::size_t requeue(Session& session, std::span<const DeliveryKey> deliveries,
                      Duration delay = {}, const Operation& operation = {});
  std::size_t requeue(const Filter& filter, Duration delay = {}, const Operation& operation = {});
  std::size_t requeue(Session& session, const Filter& filter, Duration delay = {},
                      const Operation& operation = {});
  /// Open or dead becomes discarded; a lease somebody holds is lost. A reason is needed,
  /// except for a dry run.
  std::size_t discard(std::span<const DeliveryKey> deliveries, const Operation& operation);
  std::size_t discard(Session& session, std::span<const DeliveryKey> deliveries,
                      const Operation& operation);
  /// The filter must name a state: to throw away what is open is never meant by accident.
  std::size_t discard(const Filter& filter, const Operation& operation);
  std::size_t discard(Session& session, const Filter& filter, const Operation& operation);
  /// Ready and scheduled become due at `when`, leased and waiting ones stay; attempts stay. What is
  /// behind it under its partition key waits with it. A time that has passed makes them due at
  /// once. Without a state, the filter is for both.
  std::size_t postpone(std::span<const DeliveryKey> deliveries, When when,
                       const Operation& operation = {});
  std::size_t postpone(Session& session, std::span<const DeliveryKey> deliveries, When when,
                       const Operation& operation = {});
  std::size_t postpone(const Filter& filter, When when, const Operation& operation = {});
  std::size_t postpone(Session& session, const Filter& filter, When when,
                       const Operation& operation = {});
  /// The requeue of a whole group, and its end.
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

  /// Replaces the content of a message with open or dead deliveries that nobody holds; what was
  /// there is kept in the audit.
  struct Edit {
    std::optional<std::string> payload = {};
    std::optional<std::string> headers = {};
    std::optional<std::string> content_type = {};
    std::optional<int> content_version = {};  ///< only if it still is this one
    bool requeue = false;                     ///< its dead deliveries, in the same transaction
  };
  struct Edited {
    bool changed;                        ///< false: it was in another state or version
    std::optional<int> content_version;  ///< as it is now; empty: there is no such message

    explicit operator bool() const noexcept { return changed; }
  };
  Edited edit(std::int64_t number, const Edit& change, const Operation& operation = {});
  Edited edit(Session& session, std::int64_t number, const Edit& change,
              const Operation& operation = {});

  /// Empty: no operation has been asked for under this id.
  [[nodiscard]] std::optional<AuditEntry> operation(std::string_view id);
  [[nodiscard]] AuditPage audit(std::int64_t limit = 50, std::optional<std::int64_t> after = {});

 private:
  WorkQueue& queue_;
};

}  // namespace twinbox
