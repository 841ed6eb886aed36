#include "dispatch/settle.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "queue/box.hpp"
#include "queue/claimed.hpp"

namespace twinbox {
namespace {

std::size_t discard(Box& box, Session& session, const OwnerToken& owner, const Settlement& one) {
  return box.run(session, box.sql().discard_held,
                 {{"id", one.message->delivery_id.number()},
                  {"owner", Value{owner.uuid()}},
                  {"epoch", std::int64_t{one.message->epoch}},
                  {"reason", one.verdict.reason},
                  box.now()});
}

Value text_or_null(const std::string& text) {
  return text.empty() ? Value{} : Value{std::string_view{text}};
}

/// The end of an at-most-once call: its mark becomes done or dead, or a delivery again.
void settle_mark(Box& box, Session& session, const Settlement& one) {
  using Action = Verdict::Action;
  const Verdict& verdict = one.verdict;
  const std::string kept = truncate_error(verdict.error);
  const Arg id{"id", one.message->delivery_id.number()};
  const Arg name{"handler", one.message->handler.view()};
  const Arg message_id{"message_id", one.message->id.view()};
  const Arg source{"source", one.message->source.view()};
  const Arg error{"error", text_or_null(kept)};
  if (verdict.action == Action::ack || verdict.action == Action::fail) {
    box.run(session, box.sql().finish_marked,
            {id,
             name,
             message_id,
             source,
             error,
             {"state", verdict.action == Action::fail ? 2 : 1},
             {"reason", text_or_null(verdict.reason)},
             box.now()});
    return;
  }
  box.run(session, box.sql().release_marked,
          {id,
           name,
           message_id,
           source,
           error,
           {"delay", verdict.delay ? verdict.delay->count() : std::int64_t{0}},
           {"until", verdict.action == Action::postpone ? Value{verdict.until} : Value{}},
           {"failed", verdict.action == Action::abandon ? 1 : 0},
           box.now()});
}

bool is_plain_ack(const Settlement& one) {
  return one.verdict.action == Verdict::Action::ack && !one.verdict.marked;
}

std::size_t settle_one(WorkQueue& queue, Session& session, const OwnerToken& owner,
                       const Settlement& one) {
  const Verdict& verdict = one.verdict;
  if (verdict.marked) {
    // No worker can take over a mark: a missing one was settled by an operator.
    settle_mark(box_of(queue), session, one);
    return 1;
  }
  switch (verdict.action) {
    case Verdict::Action::ack: return queue.ack(session, owner, *one.message);
    case Verdict::Action::abandon:
      return queue.abandon(session, owner, *one.message, verdict.error, verdict.delay);
    case Verdict::Action::fail:
      return queue.fail(session, owner, *one.message, verdict.error,
                        {.reason = verdict.reason, .handler_failed = verdict.handler_failed});
    case Verdict::Action::postpone:
      return queue.postpone(session, owner, *one.message, verdict.until);
    case Verdict::Action::release: return queue.release(session, owner, *one.message);
    case Verdict::Action::discard: return discard(box_of(queue), session, owner, one);
  }
  return 0;
}

}  // namespace

std::size_t settle(WorkQueue& queue, Session& session, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements) {
  std::vector<Lease> done;
  for (const Settlement& one : settlements) {
    if (is_plain_ack(one)) done.push_back(one.message->lease());
  }
  std::size_t changed = queue.ack(session, owner, done);
  for (const Settlement& one : settlements) {
    if (!is_plain_ack(one)) changed += settle_one(queue, session, owner, one);
  }
  return settlements.size() - changed;
}

std::size_t settle(WorkQueue& queue, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements) {
  if (settlements.empty()) return 0;
  const bool single_statement = std::all_of(settlements.begin(), settlements.end(), is_plain_ack) ||
                                (settlements.size() == 1 && settlements.front().verdict.marked);
  return box_of(queue).in_own_transaction(
      Access::write, single_statement ? Scope::statement : Scope::transaction,
      [&](Session& session) { return settle(queue, session, owner, settlements); });
}

void report(const WorkQueue& queue, const DispatchObserver& observer,
            const std::vector<Settlement>& settlements) {
  for (const Settlement& one : settlements) {
    const Message& message = *one.message;
    if (one.verdict.action == Verdict::Action::fail) {
      log_dead(box_of(queue), message, one.verdict.reason,
               one.verdict.cause ? one.verdict.cause->str() : std::string{});
      if (observer.dead)
        observer.dead(queue.database().name(), message, one.verdict.reason, one.verdict.error);
    } else if (one.verdict.action == Verdict::Action::abandon && observer.failed) {
      observer.failed(queue.database().name(), message, one.verdict.error);
    }
  }
}

}  // namespace twinbox
