// What the doctor finds about partition keys.
#pragma once

#include <optional>
#include <vector>

#include "queue/script.hpp"
#include "twinbox/doctor.hpp"

namespace twinbox {

/// Adds the keys that dead letters hold, and those whose first delivery is due far in the future.
/// `now` is empty but in tests.
void examine_order(Session& session, const BoxName& box, const std::optional<Instant>& now,
                   std::vector<Finding>& findings);

}  // namespace twinbox
