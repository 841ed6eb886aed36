// Outbox and inbox as the stores of an event bus: events under names of up to 500 characters, ids
// of up to 256.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "twinbox/inbox.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

/// An event as it goes into a store.
struct EventRecord {
  MessageId id;                                      ///< MessageId::event_id
  Topic name;                                        ///< Topic::event_name
  std::string data;                                  ///< the serialised envelope
  std::optional<std::string> extra_properties = {};  ///< a JSON object
  Source source = Source::none();
};

enum class EventStatus { pending, processed, discarded };

/// An event as it stands in a store.
struct StoredEvent {
  EventRecord event;
  EventStatus status = EventStatus::pending;
  Instant created_at;
  std::optional<Instant> handled_at = {};
  int retry_count = 0;
  std::optional<Instant> next_retry_at = {};
  std::string last_error = {};
  std::optional<Lease> lease = {};  ///< set by EventOutboxStore::unprocessed: update needs it
  std::int64_t number = 0;          ///< remove needs it
};

/// What became of an event that was handed out.
struct EventUpdate {
  EventStatus status = EventStatus::pending;  ///< pending: to be tried again
  std::string error = {};
  std::optional<Duration> retry_after = {};  ///< empty: by the retry policy
};

/// Thread-safe. `outbox` must outlive it. With a leading Session a call is part of the caller's
/// transaction.
class EventOutboxStore {
 public:
  EventOutboxStore(Outbox& outbox, OwnerToken owner, Duration lease = std::chrono::seconds{30});

  void store(const EventRecord& event);
  void store(Session& session, const EventRecord& event);
  /// Leases up to `batch` events that are due. One that has failed `max_retries` times becomes dead
  /// instead.
  std::vector<StoredEvent> unprocessed(std::int64_t batch, int max_retries);
  std::vector<StoredEvent> unprocessed(Session& session, std::int64_t batch, int max_retries);
  /// Events that were finished before `cutoff`, oldest first.
  std::vector<StoredEvent> processed(Instant cutoff, std::int64_t batch);
  std::vector<StoredEvent> processed(Session& session, Instant cutoff, std::int64_t batch);
  /// False: the event was not this worker's any more.
  bool update(const StoredEvent& event, const EventUpdate& update);
  bool update(Session& session, const StoredEvent& event, const EventUpdate& update);
  /// Deletes those that are finished. Returns how many.
  std::size_t remove(std::span<const StoredEvent> events);
  std::size_t remove(Session& session, std::span<const StoredEvent> events);

 private:
  Outbox& outbox_;
  OwnerToken owner_;
  Duration lease_;
};

/// Thread-safe. `inbox` must outlive it. With a leading Session a call is part of the caller's
/// transaction.
class EventInboxStore {
 public:
  EventInboxStore(Inbox& inbox, OwnerToken owner, Duration lease = std::chrono::seconds{30});

  bool has_processed(const MessageId& id, const Source& source = Source::none());
  bool has_processed(Session& session, const MessageId& id, const Source& source = Source::none());
  void mark_processed(const EventRecord& event);
  void mark_processed(Session& session, const EventRecord& event);
  std::optional<StoredEvent> get(const MessageId& id, const Source& source = Source::none());
  std::optional<StoredEvent> get(Session& session, const MessageId& id,
                                 const Source& source = Source::none());
  /// Stores an event that is still to be handled.
  void insert(const EventRecord& event);
  void insert(Session& session, const EventRecord& event);
  /// Processed and discarded are ends, also of what somebody holds; pending stores an event that is
  /// unknown, counts a failure and sets the next retry. False: the event is finished, somebody
  /// else's at the moment, or, for the ends, unknown.
  bool update(const EventRecord& event, const EventUpdate& update);
  bool update(Session& session, const EventRecord& event, const EventUpdate& update);
  /// Events that were processed or discarded before `cutoff`, oldest first.
  std::vector<StoredEvent> for_cleanup(Instant cutoff, std::int64_t batch);
  std::vector<StoredEvent> for_cleanup(Session& session, Instant cutoff, std::int64_t batch);
  std::size_t remove(std::span<const StoredEvent> events);
  std::size_t remove(Session& session, std::span<const StoredEvent> events);

 private:
  Inbox& inbox_;
  OwnerToken owner_;
  Duration lease_;
};

}  // namespace twinbox
