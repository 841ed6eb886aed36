#include <set>
#include <utility>

#include "twinbox/work_queue.hpp"

namespace twinbox {

Deliveries::Deliveries(std::span<const Lease> leases) {
  ids_.reserve(leases.size());
  epochs_.reserve(leases.size());
  for (const Lease& lease : leases) add(lease);
  make_unique();
}

Deliveries::Deliveries(std::span<const Message> messages) {
  ids_.reserve(messages.size());
  epochs_.reserve(messages.size());
  for (const Message& message : messages) add(message.lease());
  make_unique();
}

Deliveries::Deliveries(std::span<const DeliveryId> ids) : check_epoch_(false) {
  ids_.reserve(ids.size());
  epochs_.reserve(ids.size());
  for (const DeliveryId id : ids) add({id, 0});
  make_unique();
}

void Deliveries::add(const Lease& lease) {
  ids_.emplace_back(lease.work.number());
  epochs_.emplace_back(std::int64_t{lease.epoch});
}

void Deliveries::make_unique() {
  const auto number = [&](std::size_t i) { return std::get<std::int64_t>(ids_[i]); };
  bool ascending = true;
  for (std::size_t i = 1; i < ids_.size() && ascending; ++i) ascending = number(i - 1) < number(i);
  if (ascending) return;
  std::set<std::pair<std::int64_t, std::int64_t>> unique;
  for (std::size_t i = 0; i < ids_.size(); ++i)
    unique.emplace(number(i), std::get<std::int64_t>(epochs_[i]));
  ids_.clear();
  epochs_.clear();
  for (const auto& [id, epoch] : unique) {
    ids_.emplace_back(id);
    epochs_.emplace_back(epoch);
  }
}

}  // namespace twinbox
