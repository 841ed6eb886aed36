// Makes any consumer handle each message at most once, whoever calls it: a broker's own client, a
// web framework, a cron job.
#pragma once

#include <functional>

#include "twinbox/inbox.hpp"

namespace twinbox {

struct AtMostOnceOptions {
  HandlerKey handler = HandlerKey::by_topic();  ///< each handler of a message has its own claim
  /// A failed call gives its claim back, so that a redelivery handles the message again. Otherwise
  /// the claim stays, and the message is not handled again.
  bool release_claim_on_error = false;
  bool enabled = true;  ///< false: every call goes through, and no row is kept
};

/// A gate in front of a handler: `Inbox::try_claim` before the call, `Inbox::release_claim` after
/// one that failed. Thread-safe.
class AtMostOnce {
 public:
  using Handler = std::function<void()>;

  /// `inbox` must outlive it. With BoxOptions{.gate = false} every call goes through.
  explicit AtMostOnce(Inbox& inbox, AtMostOnceOptions options = {});

  /// Calls `handler` unless a call for this message has gone through before; false: it has. The
  /// claim is durable before the call, so a crash in between does not repeat it. What the handler
  /// throws goes on to the caller; a claim that then cannot be released is logged as
  /// `release_claim_failed` and stays. Throws DatabaseError when the claim cannot be made.
  bool run(const MessageKey& key, const Topic& type, const Handler& handler);
  bool run(const MessageKey& key, const Handler& handler);  ///< of the type `-`

  /// The same as a part of the caller's transaction: claim and handler's writes commit together.
  /// When what the handler throws rolls the transaction back, the claim goes with it.
  bool run(Session& session, const MessageKey& key, const Topic& type, const Handler& handler);
  bool run(Session& session, const MessageKey& key, const Handler& handler);

 private:
  template <class Claim, class Release>
  bool call(const MessageKey& key, const Handler& handler, Claim&& claim, Release&& release);

  Inbox* inbox_;
  AtMostOnceOptions options_;
};

}  // namespace twinbox
