// The doctor's findings about partition keys and progress.
#pragma once

#include <optional>
#include <vector>

#include "queue/script.hpp"
#include "twinbox/health.hpp"

namespace twinbox {

/// Adds the keys that dead letters hold, those whose first delivery is due far in the future, and a
/// box in which no delivery finishes. `now` is empty except in tests.
void examine_order(Session& session, const BoxName& box, const std::optional<Instant>& now,
                   std::vector<Finding>& findings);

}  // namespace twinbox
