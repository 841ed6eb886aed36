// The outbox: messages to other systems, stored in the same transaction as the change that they
// announce.
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

/// The result of an enqueue. The first message of an id is never changed.
struct Enqueued {
  MessageId id;
  bool duplicate = false;  ///< the id was known: nothing was stored
  bool conflict = false;   ///< it was known with another topic, payload or hash
};

/// A value that enqueue accepts: any type with an encoding.
template <class T>
concept OutboxValue =
    !std::derived_from<T, Session> && !std::convertible_to<const T&, NewMessage> &&
    !std::convertible_to<const T&, std::span<const NewMessage>>;

/// Thread-safe.
class Outbox : public WorkQueue {
 public:
  /// Opens the outbox of `database`, which must outlive it. Throws SchemaError when its tables are
  /// missing, too old or too new; std::invalid_argument for an invalid table name.
  explicit Outbox(Database& database, BoxOptions options = {});
  ~Outbox();

  /// Enqueues in a transaction of its own, which concurrent callers share; durable once it returns.
  /// Repeating a call with the same id is harmless: give your own id if you want to repeat it after
  /// `commit_in_doubt`.
  Enqueued enqueue(const NewMessage& message);
  /// All or none; a result each.
  std::vector<Enqueued> enqueue(std::span<const NewMessage> messages);

  /// Enqueues in your transaction, and neither commits it nor rolls it back.
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

// The outbox as a plain store of due messages, for code with its own loop.

/// A worker's view of an outbox: a claim leases messages to it for `lease`. Thread-safe. With a
/// leading Session a call is part of your transaction.
class OutboxStore {
 public:
  /// `outbox` must outlive it.
  OutboxStore(Outbox& outbox, OwnerToken owner, Duration lease = std::chrono::seconds{30});

  /// At most `limit` due messages. Throws std::out_of_range unless `limit` is above zero.
  std::vector<Message> claim_due(std::int64_t limit);
  std::vector<Message> claim_due(Session& session, std::int64_t limit);
  /// Sent. False: this worker no longer held it.
  bool mark_dispatched(DeliveryId id);
  bool mark_dispatched(Session& session, DeliveryId id);
  /// Retries it after `delay`. Throws std::out_of_range unless it is above zero.
  bool reschedule(DeliveryId id, Duration delay, std::string_view last_error);
  bool reschedule(Session& session, DeliveryId id, Duration delay, std::string_view last_error);
  /// Makes it dead: it is never retried.
  bool fail(DeliveryId id, std::string_view last_error);
  bool fail(Session& session, DeliveryId id, std::string_view last_error);

 private:
  Outbox& outbox_;
  OwnerToken owner_;
  Duration lease_;
};

}  // namespace twinbox
