// What acts have in common.
#pragma once

#include <span>

#include "queue/box.hpp"
#include "twinbox/admin.hpp"

namespace twinbox {

/// Throws std::out_of_range or std::invalid_argument that names what cannot be.
void check_act(const Act& act);

/// Dead becomes ready again, in one transaction and without a line in the audit.
std::size_t requeue_some(const Box& box, Session& session, std::span<const DutyKey> duties,
                         Duration delay);

}  // namespace twinbox
