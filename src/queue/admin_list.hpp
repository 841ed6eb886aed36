// One page of a list: the filter that a person sees is the one that an operation uses.
#pragma once

#include "queue/box.hpp"
#include "twinbox/operations.hpp"

namespace twinbox {

Page list_page(const Box& box, Session& session, const Filter& filter, std::int64_t limit,
               const std::optional<DeliveryKey>& after);

std::vector<DeliveryView> read_deliveries(const Box& box, Session& session, std::int64_t number);

}  // namespace twinbox
