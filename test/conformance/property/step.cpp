// From a step's small numbers to a call that lets messages in or claims them, and what the model
// says about it.
#include <algorithm>

#include "conformance/property/choice.hpp"

namespace twinbox::test {
namespace {

std::vector<model::Handler> handlers_of(int choice) {
  static const std::array<std::vector<model::Handler>, 6> sets{
      std::vector<model::Handler>{}, {}, {{"h1", {}}}, {{"h1", {}}, {"h2", {}}}, {{"h2", {"h1"}}},
      {{"h2", {}}, {"h3", {"h1"}}}};
  return pick(sets, choice);
}

std::vector<HandlerName> names_of(const std::vector<model::Handler>& handlers) {
  std::vector<HandlerName> names;
  for (const model::Handler& handler : handlers) {
    HandlerName name{HandlerKey{handler.key}};
    for (const std::string& legacy : handler.legacy) name.legacy_keys.emplace_back(legacy);
    names.push_back(name);
  }
  return names;
}

/// What the model knows as the delivery by topic.
std::vector<model::Handler> or_by_topic(std::vector<model::Handler> handlers) {
  if (handlers.empty()) handlers.push_back({"", {}});
  return handlers;
}

model::Arrival plain(const Arrival& arrival) {
  const MessageExtras& extras = arrival.extras;
  model::Content content{arrival.topic.str(), arrival.payload};
  if (extras.hash) content.hash = extras.hash->bytes;
  if (extras.partition_key) content.partition_key = extras.partition_key->str();
  content.due_at = micros(extras.due_at);
  content.expires_at = micros(extras.expires_at);
  return {name_of(arrival.key()), content, arrival.on_duplicate == OnDuplicate::replace};
}

NewMessage for_outbox(const Arrival& arrival) {
  return {.topic = arrival.topic,
          .payload = arrival.payload,
          .id = arrival.id,
          .source = arrival.source,
          .extras = arrival.extras};
}

/// The outbox says no more about a known message than that it is known.
model::Answer plain(const Enqueued& enqueued) {
  return {enqueued.duplicate ? 1 : 0, enqueued.conflict};
}

model::Answer plain(const Accepted& accepted) {
  return {static_cast<int>(accepted.state), accepted.conflict};
}

std::optional<ContentHash> hash_of(int choice) {
  if (choice % 3 == 0) return std::nullopt;
  return ContentHash{choice % 3 == 1 ? "first" : "second"};
}

std::vector<model::Claimed> claims_of(const std::vector<Message>& messages) {
  std::vector<model::Claimed> claims;
  for (const Message& message : messages) {
    claims.push_back({message.delivery_id.number(), message.epoch});
  }
  std::sort(claims.begin(), claims.end());
  return claims;
}

}  // namespace

Store::Way Store::way_of(const Step& step) {
  if (step.choice[6] < 5) return Way::own;
  return step.choice[6] < 10 ? Way::session : Way::rolled_back;
}

void Store::make(const Step& step) {
  clock_.advance(1us);
  model_.now = clock_.now().time_since_epoch().count();
  pruned_ = step.kind == StepKind::prune;
  turn_ = static_cast<std::size_t>(step.choice[5] + step.choice[6]) % (callers_.size() + 1);
  switch (step.kind) {
    case StepKind::accept:
    case StepKind::accept_batch: make_intake(step); break;
    case StepKind::accept_and_claim: make_accept_and_claim(step); break;
    case StepKind::observe:
    case StepKind::mark_processing:
    case StepKind::mark_processed:
    case StepKind::mark_arrival_processed:
    case StepKind::mark_dead:
    case StepKind::try_claim:
    case StepKind::release_claim:
      if (inbox_) make_mark(step);
      break;
    case StepKind::claim: make_claim(step); break;
    case StepKind::renew:
    case StepKind::ack:
    case StepKind::abandon:
    case StepKind::fail:
    case StepKind::release:
    case StepKind::postpone:
    case StepKind::release_by_operator:
    case StepKind::postpone_by_operator: make_settle(step); break;
    case StepKind::ack_by_id:
    case StepKind::abandon_by_id:
    case StepKind::fail_by_id: make_settle_by_id(step); break;
    case StepKind::reap:
    case StepKind::expire:
    case StepKind::prune: make_sweep(step); break;
    case StepKind::requeue:
    case StepKind::discard:
    case StepKind::edit: make_operator(step); break;
    case StepKind::advance:
      clock_.advance(pick(std::array<Duration, 6>{1s, 4s, 11s, 31s, 61s, 1h}, step.choice[0]));
      return;
    case StepKind::step_back:
      clock_.advance(pick(std::array<Duration, 3>{-1s, -15s, -40s}, step.choice[0]));
      return;
  }
  compare();
}

Arrival Store::arrival_of(const Step& step, int shift) const {
  const auto& choice = step.choice;
  const MessageKey key = key_of(choice[0] + shift);
  Arrival arrival{.source = key.source,
                  .id = key.id,
                  .topic = Topic{choice[1] % 2 == 0 ? "t0" : "t1"},
                  .payload = payload(std::to_string(choice[1] + shift))};
  arrival.extras.hash = hash_of(choice[1]);
  if (outbox_ || choice[3] >= 6) arrival.on_duplicate = OnDuplicate::keep_first;
  const int partition = (choice[2] + shift) % 4;
  if (partition > 1) arrival.extras.partition_key = PartitionKey{partition == 2 ? "x" : "y"};
  const auto later = [&](Duration by) { return clock_.now() + by; };
  switch (choice[3] % 6) {
    case 3: arrival.extras.due_at = later(-5s); break;
    case 4: arrival.extras.due_at = later(5s); break;
    case 5: arrival.extras.due_at = later(40s); break;
    default: break;
  }
  switch (choice[4] % 6) {
    case 3: arrival.extras.expires_at = later(10s); break;
    case 4: arrival.extras.expires_at = later(60s); break;
    case 5: arrival.extras.expires_at = later(-1s); break;
    default: break;
  }
  return arrival;
}

void Store::make_intake(const Step& step) {
  std::vector<Arrival> arrivals;
  const int count = step.kind == StepKind::accept ? 1 : 2 + step.choice[5] % 3;
  // The third of a batch has the key of the first: repeated ids in one call.
  for (int i = 0; i < count; ++i) arrivals.push_back(arrival_of(step, i % 2 == 0 ? 0 : i));
  const auto handlers = inbox_ ? handlers_of(step.choice[5]) : std::vector<model::Handler>{};
  const std::vector<HandlerName> names = names_of(handlers);
  const auto call = [&](auto&... session) {
    std::vector<model::Answer> answers;
    if (outbox_) {
      std::vector<NewMessage> messages;
      for (const Arrival& arrival : arrivals) messages.push_back(for_outbox(arrival));
      if (messages.size() == 1) {
        answers.push_back(plain(outbox_->enqueue(session..., messages.front())));
      } else {
        for (const Enqueued& enqueued : outbox_->enqueue(session..., messages)) {
          answers.push_back(plain(enqueued));
        }
      }
    } else if (arrivals.size() == 1) {
      answers.push_back(plain(inbox_->accept(session..., arrivals.front(), names)));
    } else {
      for (const Accepted& accepted : inbox_->accept(session..., arrivals, names)) {
        answers.push_back(plain(accepted));
      }
    }
    return answers;
  };
  both(way_of(step), call, [&](model::Model& model) {
    std::vector<model::Answer> answers;
    for (const Arrival& arrival : arrivals) {
      answers.push_back(model.accept(plain(arrival), or_by_topic(handlers)));
      if (outbox_) answers.back().state = std::min(answers.back().state, 1);
    }
    return answers;
  });
}

void Store::make_mark(const Step& step) {
  const MessageKey key = key_of(step.choice[0]);
  const model::Key name = name_of(key);
  const Way way = way_of(step);
  const std::string handler = handler_of(step.choice[5]);
  const std::string error = error_of(step.choice[1]);
  const Arrival arrival = arrival_of(step);
  switch (step.kind) {
    case StepKind::observe: {
      const auto hash = hash_of(step.choice[1]);
      both(
          way,
          [&](auto&... session) {
            const Observed observed = inbox_->observe(session..., key, hash);
            return std::pair{observed.done, observed.conflict};
          },
          [&](auto& model) {
            return model.observe(name, hash ? std::optional{hash->bytes} : std::nullopt);
          });
      break;
    }
    case StepKind::mark_processing:
      both(
          way, [&](auto&... session) { return inbox_->mark_processing(session..., key); },
          [&](auto& model) { return model.mark_processing(name); });
      break;
    case StepKind::mark_processed:
      both(
          way, [&](auto&... session) { return inbox_->mark_processed(session..., key); },
          [&](auto& model) { return model.mark_processed(name); });
      break;
    case StepKind::mark_arrival_processed:
      both(
          way, [&](auto&... session) { return inbox_->mark_processed(session..., arrival); },
          [&](auto& model) {
            model.accept(plain(arrival), or_by_topic({}));
            return model.mark_processed(name);
          });
      break;
    case StepKind::mark_dead:
      both(
          way, [&](auto&... session) { return inbox_->mark_dead(session..., key, error); },
          [&](auto& model) { return model.mark_dead(name, error); });
      break;
    case StepKind::try_claim:
      both(
          way,
          [&](auto&... session) {
            return inbox_->try_claim(session..., key, Topic{"t2"}, handler_key(handler));
          },
          [&](auto& model) { return model.try_claim(name, "t2", handler); });
      break;
    default:
      both(
          way,
          [&](auto&... session) {
            return inbox_->release_claim(session..., key, handler_key(handler));
          },
          [&](auto& model) { return model.release_claim(name, handler); });
      break;
  }
}

void Store::grant(const OwnerToken& owner, const std::vector<Message>& messages) {
  for (const Message& message : messages) granted_.push_back({owner, message.lease()});
}

void Store::make_claim(const Step& step) {
  const OwnerToken owner = owner_of(step.choice[0]);
  const Duration lease = lease_of(step.choice[1]);
  const std::int64_t limit = pick(std::array<std::int64_t, 4>{100, 1, 2, 3}, step.choice[2]);
  std::optional<Instant> visible_from;
  if (step.choice[3] == 11) visible_from = clock_.now() - 5s;
  const Way way = way_of(step);
  const std::vector<Message> messages = perform(way, [&](auto&... session) {
    return queue().claim(session..., owner, lease, limit, visible_from);
  });
  for (std::size_t i = 1; i < messages.size(); ++i) {
    if (messages[i - 1].visible_at > messages[i].visible_at) {
      throw Disagreement("a claim is not in the order of its messages' age");
    }
  }
  const auto worlds = model_.claim(owner.str(), lease.count(), static_cast<std::size_t>(limit),
                                   micros(visible_from));
  const auto claims = claims_of(messages);
  const model::Model before = model_;
  std::string why = "the claim's answer differs";
  for (const model::Model::World& world : worlds) {
    std::vector<model::Claimed> answer = world.answer;
    std::sort(answer.begin(), answer.end());
    if (answer != claims) continue;
    check_claimed(world.model, messages);
    if (way == Way::rolled_back) return;
    try {
      model_ = world.model;
      compare();
      grant(owner, messages);
      return;
    } catch (const Disagreement& error) {
      model_ = before;
      why = error.what();
    }
  }
  throw Disagreement(why);
}

void Store::make_accept_and_claim(const Step& step) {
  if (!inbox_) return;
  const Arrival arrival = arrival_of(step);
  const OwnerToken owner = owner_of(step.choice[4]);
  const Duration lease = lease_of(step.choice[1]);
  const auto handlers = handlers_of(step.choice[5]);
  const Way way = way_of(step);
  const auto result = perform(way, [&](auto&... session) {
    return inbox_->accept_and_claim(session..., arrival, owner, lease, names_of(handlers));
  });
  model::Model next = model_;
  const model::Answer answer = next.accept(plain(arrival), or_by_topic(handlers));
  if (!(answer == plain(result.accepted))) throw Disagreement("the answer differs");
  const bool other = answer.conflict && arrival.on_duplicate == OnDuplicate::keep_first;
  const auto expected =
      other ? std::vector<model::Claimed>{}
            : next.claim_message(name_of(arrival.key()), owner.str(), lease.count());
  if (expected.size() != result.messages.size()) throw Disagreement("the claim's size differs");
  check_claimed(next, result.messages);
  if (way == Way::rolled_back) return;
  model_ = std::move(next);
  grant(owner, result.messages);
}

}  // namespace twinbox::test
