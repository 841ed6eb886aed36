// One page of a list: what a person sees is what an act by filter is applied to.
#pragma once

#include "queue/box.hpp"
#include "twinbox/admin.hpp"

namespace twinbox {

Page list_page(const Box& box, Session& session, const Filter& filter, std::int64_t limit,
               const std::optional<DutyKey>& after);

std::vector<DutyView> read_duties(const Box& box, Session& session, std::int64_t number);

}  // namespace twinbox
