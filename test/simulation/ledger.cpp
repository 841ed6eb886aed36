#include "simulation/ledger.hpp"

#include <algorithm>

namespace twinbox::simulation {
namespace {

std::string text(const Message& message) {
  return message.id.str() + " for '" + message.handler.str() + "' (work " +
         std::to_string(message.delivery_id.number()) + ", epoch " + std::to_string(message.epoch) +
         ")";
}

std::optional<std::string> partition_of(const Message& message) {
  if (!message.partition_key) return std::nullopt;
  return message.handler.str() + "\n" + message.partition_key->str();
}

}  // namespace

DeliveryName delivery_of(const Message& message) {
  return {message.id.str(), message.handler.str()};
}

void Ledger::clock_moved(Instant now) {
  for (auto& [work, live] : leases_) live.certain = live.certain && live.until > now;
}

void Ledger::claimed(const Message& message, Instant now) {
  if (finished_.contains(delivery_of(message))) {
    throw Violation("claimed although it is finished: " + text(message));
  }
  const std::optional<std::string> partition = partition_of(message);
  for (const auto& [delivery, held] : holders_) {
    if (partition == held && delivery != delivery_of(message)) {
      throw Violation("claimed past " + delivery.id +
                      ", which is dead and holds the key: " + text(message));
    }
  }
  for (const auto& [work, live] : leases_) {
    if (!live.certain || live.until <= now) continue;
    if (work == message.delivery_id) throw Violation("two live leases: " + text(message));
    if (partition && live.partition == partition) {
      throw Violation("two live leases under one partition key: " + text(message));
    }
  }
  if (const auto known = leases_.find(message.delivery_id);
      known != leases_.end() && known->second.epoch >= message.epoch) {
    throw Violation("an epoch that did not grow: " + text(message));
  }
  leases_.insert_or_assign(message.delivery_id,
                           LiveLease{message.epoch, message.lease_until, partition});
}

void Ledger::renewed(const Lease& lease, Instant until) {
  const auto known = leases_.find(lease.work);
  if (known == leases_.end() || known->second.epoch != lease.epoch) {
    throw Violation("renewed a lease that was taken over: work " +
                    std::to_string(lease.work.number()));
  }
  known->second.until = std::max(known->second.until, until);
  known->second.certain = true;
}

void Ledger::settled(const Message& message, std::size_t changed, Ending ending, Instant now) {
  const auto known = leases_.find(message.delivery_id);
  const bool latest = known != leases_.end() && known->second.epoch == message.epoch;
  if (changed > 1) throw Violation("one settle changed several: " + text(message));
  if (changed == 1 && !latest) throw Violation("a stale settle changed: " + text(message));
  if (changed == 0 && latest && known->second.certain && known->second.until > now) {
    throw Violation("a settle under a live lease changed nothing: " + text(message));
  }
  if (latest) known->second.certain = false;
  if (changed == 1 && ending != Ending::none &&
      !finished_.emplace(delivery_of(message), ending).second) {
    throw Violation("finished twice: " + text(message));
  }
  if (changed == 0) return;
  if (ending == Ending::done) holders_.erase(delivery_of(message));
  if (ending == Ending::dead && hold_keys_ && message.partition_key)
    holders_.insert_or_assign(delivery_of(message), *partition_of(message));
}

void Ledger::requeued(const DeliveryName& delivery) {
  operated_.insert(delivery);
  finished_.erase(delivery);
}

void Ledger::discarded(const DeliveryName& delivery, bool certain) {
  operated_.insert(delivery);
  holders_.erase(delivery);
  finished_.erase(delivery);
  if (certain) finished_.emplace(delivery, Ending::discarded);
}

void Ledger::expired() {
  std::erase_if(holders_, [&](const auto& held) { return !finished_.contains(held.first); });
}

void Ledger::settle_in_doubt(const Message& message) {
  const auto known = leases_.find(message.delivery_id);
  if (known != leases_.end()) known->second.certain = false;
  holders_.erase(delivery_of(message));
}

}  // namespace twinbox::simulation
