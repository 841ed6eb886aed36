// What is asked of a store.
#pragma once

#include <vector>

#include "measure.hpp"

namespace twinbox::bench {

std::vector<Case> intake_cases(Dialect dialect);
std::vector<Case> group_commit_cases(Dialect dialect);
std::vector<Case> drain_cases(Dialect dialect);
std::vector<Case> cost_cases(Dialect dialect);

/// Of what a hand-written loop reaches.
constexpr double usual_target = 0.85;

}  // namespace twinbox::bench
