// From a step's small numbers to a call that settles, sweeps or is an operator's, and what the
// model says about it.
#include <algorithm>

#include "conformance/property/choice.hpp"

namespace twinbox::test {

std::vector<Store::Granted> Store::granted_of(const Step& step) const {
  std::vector<Granted> chosen;
  const std::size_t known = std::min<std::size_t>(granted_.size(), 8);
  const std::size_t count = std::min(known, 1 + static_cast<std::size_t>(step.choice[1]) % 3);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t back = (static_cast<std::size_t>(step.choice[0]) + i) % known;
    chosen.push_back(granted_[granted_.size() - 1 - back]);
  }
  return chosen;
}

void Store::make_settle(const Step& step) {
  const std::vector<Granted> chosen = granted_of(step);
  if (chosen.empty()) return;
  // A call has one owner: the first one's, or, rarely, somebody who holds nothing of it.
  const OwnerToken owner = step.choice[2] == 11 ? owner_of(step.choice[0]) : chosen[0].owner;
  const bool guarded = step.choice[2] % 3 != 2;
  std::vector<Lease> leases;
  std::vector<DeliveryId> ids;
  std::vector<std::int64_t> numbers;
  std::set<Lease> unique;
  for (const Granted& one : chosen) {
    if (!unique.insert(one.lease).second) continue;
    leases.push_back(one.lease);
    ids.push_back(one.lease.work);
    numbers.push_back(one.lease.work.number());
  }
  const Deliveries deliveries = guarded ? Deliveries{leases} : Deliveries{ids};
  std::vector<model::Held> held;
  for (const Lease& lease : leases) {
    held.push_back({owner.str(), lease.work.number(),
                    guarded ? std::optional<std::int64_t>{lease.epoch} : std::nullopt});
  }
  const Way way = way_of(step);
  const std::string error = error_of(step.choice[3]);
  const Duration lease = lease_of(step.choice[4]);
  const Instant until = clock_.now() + (step.choice[4] % 3 == 0 ? Duration{-3s} : Duration{20s});
  std::optional<Duration> delay;
  if (step.choice[4] % 2 == 1) delay = 3s;
  const auto delay_micros = delay ? std::optional{delay->count()} : std::nullopt;
  const Failure failure{.reason = "failed", .handler_failed = step.choice[4] % 3 != 0};
  switch (step.kind) {
    case StepKind::renew:
      both(
          way,
          [&](auto&... session) {
            std::vector<std::int64_t> kept;
            for (const DeliveryId id : queue().renew(session..., owner, deliveries, lease)) {
              kept.push_back(id.number());
            }
            std::sort(kept.begin(), kept.end());
            return kept;
          },
          [&](auto& model) { return model.renew(held, lease.count()); });
      break;
    case StepKind::ack:
      both(
          way, [&](auto&... session) { return queue().ack(session..., owner, deliveries); },
          [&](auto& model) { return model.ack(held); });
      break;
    case StepKind::abandon:
      both(
          way,
          [&](auto&... session) {
            return queue().abandon(session..., owner, deliveries, error, delay);
          },
          [&](auto& model) { return model.abandon(held, error, delay_micros); });
      break;
    case StepKind::fail:
      both(
          way,
          [&](auto&... session) {
            return queue().fail(session..., owner, deliveries, error, failure);
          },
          [&](auto& model) { return model.fail(held, error, failure.handler_failed); });
      break;
    case StepKind::release:
      both(
          way, [&](auto&... session) { return queue().release(session..., owner, deliveries); },
          [&](auto& model) { return model.release(held, {}); });
      break;
    case StepKind::postpone:
      both(
          way,
          [&](auto&... session) { return queue().postpone(session..., owner, deliveries, until); },
          [&](auto& model) { return model.release(held, micros(until)); });
      break;
    case StepKind::release_by_operator:
      both(
          way, [&](auto&... session) { return queue().release(session..., deliveries); },
          [&](auto& model) { return model.release_by_operator(numbers, {}); });
      break;
    default:
      both(
          way, [&](auto&... session) { return queue().postpone(session..., deliveries, until); },
          [&](auto& model) { return model.release_by_operator(numbers, micros(until)); });
      break;
  }
}

void Store::make_settle_by_id(const Step& step) {
  const OwnerToken owner = owner_of(step.choice[2]);
  std::vector<MessageId> ids;
  for (int i = 0; i <= step.choice[1] % 3; ++i) ids.push_back(key_of(step.choice[0] + i).id);
  const std::string error = error_of(step.choice[3]);
  both(
      way_of(step),
      [&](auto&... session) {
        SettledById settled;
        if (step.kind == StepKind::ack_by_id) settled = queue().ack(session..., owner, ids);
        if (step.kind == StepKind::abandon_by_id)
          settled = queue().abandon(session..., owner, ids, error);
        if (step.kind == StepKind::fail_by_id)
          settled = queue().fail(session..., owner, ids, error);
        return std::pair{settled.changed,
                         std::set(settled.ambiguous.begin(), settled.ambiguous.end())};
      },
      [&](auto& model) {
        std::set<MessageId> ambiguous;
        std::vector<model::Held> held;
        for (const MessageId& id : std::set(ids.begin(), ids.end())) {
          const auto work = model.work_of(id.str());
          if (!work) ambiguous.insert(id);
          if (work && *work != 0) held.push_back({owner.str(), *work, {}});
        }
        std::size_t changed = 0;
        if (step.kind == StepKind::ack_by_id) changed = model.ack(held);
        if (step.kind == StepKind::abandon_by_id) changed = model.abandon(held, error, {});
        if (step.kind == StepKind::fail_by_id) changed = model.fail(held, error, true);
        return std::pair{changed, ambiguous};
      });
}

void Store::make_sweep(const Step& step) {
  const Way way = way_of(step);
  const PruneOptions options{
      .older_than = pick(std::array<Duration, 3>{0s, 10s, 1h}, step.choice[0]),
      .batch = step.choice[1] % 2 == 0 || way != Way::own ? 1000 : 1,
      .include_dead = step.choice[2] % 3 == 2,
      .include_seen = step.choice[3] % 3 == 2};
  switch (step.kind) {
    case StepKind::reap:
      both(
          way, [&](auto&... session) { return queue().reap(session...); },
          [&](auto& model) { return model.reap(); });
      break;
    case StepKind::expire:
      both(
          way, [&](auto&... session) { return queue().expire(session...); },
          [&](auto& model) { return model.expire(); });
      break;
    default:
      both(
          way, [&](auto&... session) { return queue().prune(session..., options); },
          [&](auto& model) {
            return model.prune(
                {options.older_than.count(), options.include_dead, options.include_seen}, numbers_);
          });
      break;
  }
}

void Store::make_operator(const Step& step) {
  const model::Key name = name_of(key_of(step.choice[0]));
  const auto known = numbers_.find(name);
  const std::int64_t number = known == numbers_.end() ? 0 : known->second;
  const std::string handler = handler_of(step.choice[5]);
  std::vector<DeliveryKey> keys{{number, handler_key(handler)}};
  std::vector<model::DeliveryName> deliveries{{name, handler}};
  if (step.choice[4] % 3 == 2 && handler != "h3") {
    keys.push_back({number, handler_key("h3")});
    deliveries.push_back({name, "h3"});
  }
  const Duration delay = pick(std::array<Duration, 2>{0s, 5s}, step.choice[3]);
  const Way way = way_of(step);
  switch (step.kind) {
    case StepKind::requeue:
      both(
          way,
          [&](auto&... session) {
            return admin_->requeue(session..., keys, delay, twinbox::Operation{});
          },
          [&](auto& model) { return model.requeue(deliveries, delay.count()); });
      break;
    case StepKind::discard:
      both(
          way,
          [&](auto&... session) {
            return admin_->discard(session..., keys, twinbox::Operation{.reason = "not needed"});
          },
          [&](auto& model) { return model.discard(deliveries, "not needed"); });
      break;
    default:
      both(
          way,
          [&](auto&... session) {
            return admin_
                ->edit(session..., number, {.payload = payload("edited")}, twinbox::Operation{})
                .changed;
          },
          [&](auto& model) { return model.edit(name, payload("edited")); });
      break;
  }
}

}  // namespace twinbox::test
