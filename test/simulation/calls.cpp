#include "simulation/calls.hpp"

namespace twinbox::simulation {
namespace {

/// A call that came to no answer may have had its effect.
bool may_repeat(Kind kind, Answer last) {
  switch (kind) {
    case Kind::once: return last == Answer::postpone;
    case Kind::again: return last == Answer::postpone || last == Answer::retry;
    default: return true;
  }
}

}  // namespace

void Calls::begun(const DeliveryName& delivery, Kind kind) {
  Record& record = records_[delivery];
  if (record.calls > 0 && !may_repeat(kind, record.last)) {
    throw Violation("called a second time, at most once: " + delivery.id + " for '" +
                    delivery.handler + "'");
  }
  ++record.calls;
  record.last = Answer::none;
}

void Calls::answered(const DeliveryName& delivery, Answer answer) {
  Record& record = records_[delivery];
  record.last = answer;
  if (answer == Answer::done) ++record.done;
  if (answer == Answer::dead) ++record.dead;
}

void Calls::check_end(const DeliveryName& delivery, Kind kind, const OutcomeRow& outcome,
                      int effects, int max_attempts) const {
  const auto found = records_.find(delivery);
  const Record record = found == records_.end() ? Record{} : found->second;
  const auto refuse = [&](const std::string& what) {
    throw Violation(what + ": " + delivery.id + " for '" + delivery.handler + "' (" +
                    outcome.reason + ")");
  };
  if (kind == Kind::nobody) {
    if (record.calls > 0) refuse("called for nobody's delivery");
    return;
  }
  switch (outcome.state) {
    case State::done:
      if (record.done == 0) refuse("done, but no handler said so");
      break;
    case State::dead:
      if (outcome.reason == "handler" && record.dead == 0) refuse("dead, but no handler said so");
      // A transaction that cannot begin is a failed attempt without a call.
      if (outcome.reason == "max_attempts" && kind != Kind::transactional &&
          record.calls < max_attempts)
        refuse("dead before its last attempt");
      break;
    case State::marked:
      if (kind != Kind::once && kind != Kind::again) refuse("left marked");
      break;
    case State::discarded: refuse("discarded by nobody");
  }
  const int expected = kind == Kind::transactional && outcome.state == State::done ? 1 : 0;
  if (effects != expected) refuse(std::to_string(effects) + " effects");
}

}  // namespace twinbox::simulation
