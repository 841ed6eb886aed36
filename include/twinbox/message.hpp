// Messages to store, and messages that have been claimed.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/environment.hpp"
#include "twinbox/ids.hpp"

namespace twinbox {

/// A digest of the content, with the algorithm that made it.
struct ContentHash {
  std::string bytes;
  std::string algorithm = "sha256";

  /// SHA-256 of `content`.
  static ContentHash of(std::string_view content);

  auto operator<=>(const ContentHash&) const = default;
};

/// Optional fields of any message. Every field has a default.
struct MessageExtras {
  std::optional<CorrelationId> correlation_id = {};
  std::optional<PartitionKey> partition_key =
      {};                                 ///< same key: one after the other, in order of commit
  std::optional<InstantArg> due_at = {};  ///< empty or past: now
  /// A delay from now, by the database's clock. Setting both this and `due_at` is refused.
  std::optional<Duration> delay = {};
  std::optional<InstantArg> expires_at = {};  ///< open deliveries become dead then (`expired`)
  std::optional<std::string> content_type = {};
  std::optional<std::string> headers = {};  ///< a JSON object
  std::optional<ContentHash> hash = {};
};

/// A message for the outbox.
struct NewMessage {
  Topic topic;
  std::string payload;                ///< may be empty, may be binary
  std::optional<MessageId> id = {};   ///< empty: a new UUID v7
  std::optional<Source> source = {};  ///< empty: `-`
  MessageExtras extras = {};
};

/// How an arrival changes a known, unfinished message of the same key.
enum class OnDuplicate {
  replace,     ///< overwrites its content and times, unless any of it is leased
  keep_first,  ///< changes nothing: for arrivals from a network
};

/// A received message, for the inbox.
struct Arrival {
  Source source;
  MessageId id;
  Topic topic;
  std::string payload;
  MessageExtras extras = {};
  OnDuplicate on_duplicate = OnDuplicate::replace;

  [[nodiscard]] MessageKey key() const { return {source, id}; }
};

/// A handler that gets its own delivery for each message.
struct HandlerName {
  HandlerKey key;
  std::vector<HandlerKey> legacy_keys =
      {};  ///< former keys: a delivery under one of them counts as this one's
};

enum class Acceptance { accepted, duplicate_open, duplicate_done, duplicate_dead };

std::string_view to_string(Acceptance acceptance) noexcept;

/// The result of an arrival.
struct Accepted {
  Acceptance state;
  bool conflict = false;  ///< same id, other topic, payload or hash than before

  [[nodiscard]] bool duplicate() const noexcept { return state != Acceptance::accepted; }
};

/// One delivery, leased to you, with its whole message.
struct Message {
  DeliveryId delivery_id;
  std::int32_t epoch;
  HandlerKey handler;  ///< empty: by topic
  int attempts;        ///< recorded failures so far
  int expiries;        ///< workers that died holding it
  int requeues;
  Instant visible_at;
  Instant lease_until;
  std::string last_error;  ///< empty: none

  Source source;
  MessageId id;
  Topic topic;
  std::string payload;
  std::optional<std::string> content_type;
  std::optional<std::string> headers;
  std::optional<CorrelationId> correlation_id;
  std::optional<PartitionKey> partition_key;
  std::optional<ContentHash> hash;
  std::optional<Instant> due_at;
  std::optional<Instant> expires_at;
  Instant created_at;
  Instant last_seen_at;
  int seen_count;
  int content_version;

  [[nodiscard]] Lease lease() const noexcept { return {delivery_id, epoch}; }
  [[nodiscard]] MessageKey key() const { return {source, id}; }
};

}  // namespace twinbox

namespace twinbox::fields {

// For compile errors: a message field in the wrong place, or of the wrong type, is named.
// `enqueue({.topic = …, .due_at = …})` fits no message; it fits these types, whose fields refuse
// the value. A misspelled name fits nothing: write NewMessage{…} and the compiler names it.

template <class>
inline constexpr bool never = false;

#define TWINBOX_FIELD(Name, Right, text)                  \
  struct Name {                                           \
    Name() = default;                                     \
    template <class T>                                    \
    Name(T&&) { /* NOLINT */                              \
      static_assert(std::convertible_to<T, Right>, text); \
    }                                                     \
  };
#define TWINBOX_MISPLACED(Name, field)                                                    \
  struct Name {                                                                           \
    Name() = default;                                                                     \
    template <class T>                                                                    \
    Name(T&&) { /* NOLINT */                                                              \
      static_assert(never<T>,                                                             \
                    #field " is a field of extras: write .extras = {." #field " = ...}"); \
    }                                                                                     \
  };

TWINBOX_FIELD(TopicField, Topic, "topic is a Topic: write .topic = Topic{\"order.placed\"}")
TWINBOX_FIELD(PayloadField, std::string, "payload is a std::string")
TWINBOX_FIELD(IdField, std::optional<MessageId>, "id is a MessageId: write .id = MessageId{...}")
TWINBOX_FIELD(SourceField, std::optional<Source>,
              "source is a Source: write .source = Source{\"shop\"}")
TWINBOX_MISPLACED(CorrelationIdField, correlation_id)
TWINBOX_MISPLACED(PartitionKeyField, partition_key)
TWINBOX_MISPLACED(DueAtField, due_at)
TWINBOX_MISPLACED(DelayField, delay)
TWINBOX_MISPLACED(ExpiresAtField, expires_at)
TWINBOX_MISPLACED(ContentTypeField, content_type)
TWINBOX_MISPLACED(HeadersField, headers)
TWINBOX_MISPLACED(HashField, hash)
#undef TWINBOX_FIELD
#undef TWINBOX_MISPLACED

/// NewMessage with the fields of MessageExtras inlined.
struct NewMessageFields {
  TopicField topic = {};
  PayloadField payload = {};
  IdField id = {};
  SourceField source = {};
  MessageExtras extras = {};
  CorrelationIdField correlation_id = {};
  PartitionKeyField partition_key = {};
  DueAtField due_at = {};
  DelayField delay = {};
  ExpiresAtField expires_at = {};
  ContentTypeField content_type = {};
  HeadersField headers = {};
  HashField hash = {};
};

/// Arrival, likewise.
struct ArrivalFields {
  SourceField source = {};
  IdField id = {};
  TopicField topic = {};
  PayloadField payload = {};
  MessageExtras extras = {};
  OnDuplicate on_duplicate = OnDuplicate::replace;
  CorrelationIdField correlation_id = {};
  PartitionKeyField partition_key = {};
  DueAtField due_at = {};
  DelayField delay = {};
  ExpiresAtField expires_at = {};
  ContentTypeField content_type = {};
  HeadersField headers = {};
  HashField hash = {};
};

/// The body of a call that got ArrivalFields: it does not compile.
template <class T, class Result>
Result refuse() {
  static_assert(never<T>, "a field of the arrival has the wrong place or the wrong type");
  throw std::logic_error("unreachable");
}

}  // namespace twinbox::fields
