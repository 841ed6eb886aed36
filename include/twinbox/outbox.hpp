// The outbox: what must be told to others, written in the same transaction as what happened.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "twinbox/message.hpp"
#include "twinbox/typed.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

class MessageWriter;

/// What became of a message for the outbox. The first message of an id stays as it is.
struct Enqueued {
  MessageId id;
  bool duplicate = false;  ///< the id was known: nothing was stored
  bool conflict = false;   ///< it was known with another topic, payload or hash
};

/// Whatever enqueue takes as a value of your own.
template <class T>
concept OutboxValue =
    !std::derived_from<T, Session> && !std::convertible_to<const T&, NewMessage> &&
    !std::convertible_to<const T&, std::span<const NewMessage>>;

/// Thread-safe.
class Outbox : public WorkQueue {
 public:
  /// Opens the outbox of `database`, which must outlive it. Throws SchemaError when its tables are
  /// missing, too old or too new; std::invalid_argument for a name that cannot be used.
  explicit Outbox(Database& database, BoxOptions options = {});
  ~Outbox();

  /// Enqueues in a transaction of its own, shared with other callers where they come at the same
  /// time; durable once it returns. Repeating a call with the same id is harmless: give an id of
  /// your own where you mean to repeat it after `commit_in_doubt`.
  Enqueued enqueue(const NewMessage& message);
  /// All or none; an answer each.
  std::vector<Enqueued> enqueue(std::span<const NewMessage> messages);

  /// Enqueues in the caller's transaction, which is neither committed nor rolled back.
  Enqueued enqueue(Session& session, const NewMessage& message);
  std::vector<Enqueued> enqueue(Session& session, std::span<const NewMessage> messages);

  /// Enqueues a value as a message; see message_of().
  template <OutboxValue T = fields::NewMessageFields>
  Enqueued enqueue(const T& value, const MessageExtras& extras = {}) {
    return enqueue(to_new_message(value, extras));
  }
  template <OutboxValue T = fields::NewMessageFields>
  Enqueued enqueue(Session& session, const T& value, const MessageExtras& extras = {}) {
    return enqueue(session, to_new_message(value, extras));
  }

 private:
  template <class T>
  static NewMessage to_new_message(const T& value, const MessageExtras& extras) {
    if constexpr (std::same_as<T, fields::NewMessageFields>) {
      static_assert(!std::same_as<T, fields::NewMessageFields>,
                    "enqueue: a field of the message has the wrong place or the wrong type");
      throw UsageError("enqueue: unreachable");
    } else {
      static_assert(HasTopic<T>, "enqueue: the type has no topic, see TopicOf in typed.hpp");
      static_assert(Encodable<T>,
                    "enqueue: the type cannot be written as a payload, see Encode in typed.hpp, or "
                    "include nlohmann_json.hpp or boost_json.hpp");
      return message_of(value, extras);
    }
  }

  std::unique_ptr<MessageWriter> writer_;
};

// The outbox as a plain store of due messages, for code that brings its own loop.

/// A worker's view of an outbox: what it claims is leased to it for `lease`. Thread-safe.
/// With a leading Session a call is part of the caller's transaction.
class OutboxStore {
 public:
  /// `outbox` must outlive it.
  OutboxStore(Outbox& outbox, OwnerToken owner, Duration lease = std::chrono::seconds{30});

  /// At most `limit` messages that are due. Throws std::out_of_range unless `limit` is above zero.
  std::vector<Message> claim_due(std::int64_t limit);
  std::vector<Message> claim_due(Session& session, std::int64_t limit);
  /// Sent. False: it was not this worker's any more.
  bool mark_dispatched(DeliveryId id);
  bool mark_dispatched(Session& session, DeliveryId id);
  /// To be tried again after `delay`. Throws std::out_of_range unless it is above zero.
  bool reschedule(DeliveryId id, Duration delay, std::string_view last_error);
  bool reschedule(Session& session, DeliveryId id, Duration delay, std::string_view last_error);
  /// Never to be tried again.
  bool fail(DeliveryId id, std::string_view last_error);
  bool fail(Session& session, DeliveryId id, std::string_view last_error);

 private:
  Outbox& outbox_;
  OwnerToken owner_;
  Duration lease_;
};

}  // namespace twinbox
