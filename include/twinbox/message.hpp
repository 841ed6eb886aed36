// Messages on their way in, and messages that have been claimed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/environment.hpp"
#include "twinbox/ids.hpp"

namespace twinbox {

/// A digest of the content, kept with the algorithm that made it.
struct ContentHash {
  std::string bytes;
  std::string algorithm = "sha256";

  /// SHA-256 of `content`.
  static ContentHash of(std::string_view content);

  auto operator<=>(const ContentHash&) const = default;
};

/// What may come with any message. Everything has a default.
struct MessageExtras {
  std::optional<CorrelationId> correlation_id = {};
  std::optional<PartitionKey> partition_key =
      {};                                 ///< same key: one after the other, in order of commit
  std::optional<InstantArg> due_at = {};  ///< empty or past: now
  /// So long from now, by the database's clock: instead of `due_at`, both are refused.
  std::optional<Duration> delay = {};
  std::optional<InstantArg> expires_at = {};  ///< open work past it becomes dead (`expired`)
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

/// What an arrival does to a message of the same key that is known and not done.
enum class OnDuplicate {
  replace,     ///< takes over its content and times, unless any of it is leased
  keep_first,  ///< changes nothing: for whatever arrives over a network
};

/// A message that has arrived from elsewhere, for the inbox.
struct Arrival {
  Source source;
  MessageId id;
  Topic topic;
  std::string payload;
  MessageExtras extras = {};
  OnDuplicate on_duplicate = OnDuplicate::replace;

  [[nodiscard]] MessageKey key() const { return {source, id}; }
};

/// A handler that gets its own duty for each message.
struct HandlerName {
  HandlerKey key;
  std::vector<HandlerKey> legacy_keys =
      {};  ///< former keys: a duty under one of them counts as this one's
};

enum class Acceptance { accepted, duplicate_open, duplicate_done, duplicate_dead };

std::string_view to_string(Acceptance acceptance) noexcept;

/// What became of an arrival.
struct Accepted {
  Acceptance state;
  bool conflict = false;  ///< same id, other topic, payload or hash than before

  [[nodiscard]] bool duplicate() const noexcept { return state != Acceptance::accepted; }
};

/// One duty, leased to you, with its whole message.
struct Message {
  WorkId work_id;
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

  [[nodiscard]] Lease lease() const noexcept { return {work_id, epoch}; }
  [[nodiscard]] MessageKey key() const { return {source, id}; }
};

}  // namespace twinbox
