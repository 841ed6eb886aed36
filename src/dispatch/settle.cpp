#include "dispatch/settle.hpp"

#include <algorithm>

#include "queue/box.hpp"
#include "queue/claimed.hpp"

namespace twinbox {
namespace {

std::size_t discard(Box& box, Session& session, const OwnerToken& owner, const Settlement& one) {
  return box.run(session, box.sql().discard_held,
                 {{"id", one.message->work_id.number()},
                  {"owner", Value{owner.uuid()}},
                  {"epoch", std::int64_t{one.message->epoch}},
                  {"reason", one.verdict.reason},
                  box.now()});
}

std::size_t settle_one(WorkQueue& queue, Session& session, const OwnerToken& owner,
                       const Settlement& one) {
  const Verdict& verdict = one.verdict;
  switch (verdict.act) {
    case Verdict::Act::ack: return queue.ack(session, owner, *one.message);
    case Verdict::Act::abandon:
      return queue.abandon(session, owner, *one.message, verdict.error, verdict.delay);
    case Verdict::Act::fail:
      return queue.fail(session, owner, *one.message, verdict.error,
                        {.reason = verdict.reason, .handler_failed = verdict.handler_failed});
    case Verdict::Act::postpone: return queue.postpone(session, owner, *one.message, verdict.until);
    case Verdict::Act::release: return queue.release(session, owner, *one.message);
    case Verdict::Act::discard: return discard(queue.box(), session, owner, one);
  }
  return 0;
}

}  // namespace

std::size_t settle(WorkQueue& queue, Session& session, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements) {
  std::vector<Lease> done;
  for (const Settlement& one : settlements) {
    if (one.verdict.act == Verdict::Act::ack) done.push_back(one.message->lease());
  }
  std::size_t changed = queue.ack(session, owner, done);
  for (const Settlement& one : settlements) {
    if (one.verdict.act != Verdict::Act::ack) changed += settle_one(queue, session, owner, one);
  }
  return settlements.size() - changed;
}

std::size_t settle(WorkQueue& queue, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements) {
  if (settlements.empty()) return 0;
  const bool one_act = std::all_of(settlements.begin(), settlements.end(), [](const auto& one) {
    return one.verdict.act == Verdict::Act::ack;
  });
  return queue.box().own(
      Access::write, one_act ? Scope::statement : Scope::transaction,
      [&](Session& session) { return settle(queue, session, owner, settlements); });
}

void report(const WorkQueue& queue, const DispatchObserver& observer,
            const std::vector<Settlement>& settlements) {
  for (const Settlement& one : settlements) {
    const Message& message = *one.message;
    if (one.verdict.act == Verdict::Act::fail) {
      log_dead(queue.box(), message, one.verdict.reason);
      if (observer.dead)
        observer.dead(queue.database().name(), message, one.verdict.reason, one.verdict.error);
    } else if (one.verdict.act == Verdict::Act::abandon && observer.failed) {
      observer.failed(queue.database().name(), message, one.verdict.error);
    }
  }
}

}  // namespace twinbox
