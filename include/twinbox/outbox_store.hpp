// The outbox as a plain store of due messages, for code that brings its own loop.
#pragma once

#include <string_view>
#include <vector>

#include "twinbox/outbox.hpp"

namespace twinbox {

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
  bool mark_dispatched(WorkId id);
  bool mark_dispatched(Session& session, WorkId id);
  /// To be tried again after `delay`. Throws std::out_of_range unless it is above zero.
  bool reschedule(WorkId id, Duration delay, std::string_view last_error);
  bool reschedule(Session& session, WorkId id, Duration delay, std::string_view last_error);
  /// Never to be tried again.
  bool fail(WorkId id, std::string_view last_error);
  bool fail(Session& session, WorkId id, std::string_view last_error);

 private:
  Outbox& outbox_;
  OwnerToken owner_;
  Duration lease_;
};

}  // namespace twinbox
