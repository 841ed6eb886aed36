// The outbox: what must be told to others, written in the same transaction as what happened.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "twinbox/work_queue.hpp"

namespace twinbox {

class MessageWriter;

/// What became of a message for the outbox. The first message of an id stays as it is.
struct Enqueued {
  MessageId id;
  bool duplicate = false;  ///< the id was known: nothing was stored
  bool conflict = false;   ///< it was known with another topic, payload or hash
};

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

 private:
  std::unique_ptr<MessageWriter> writer_;
};

}  // namespace twinbox
