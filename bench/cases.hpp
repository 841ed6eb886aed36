// What is asked of a store, of a dispatcher, and of the daemon.
#pragma once

#include <vector>

#include "measure.hpp"

namespace twinbox::bench {

std::vector<Case> intake_cases(Dialect dialect);
std::vector<Case> group_commit_cases(Dialect dialect);
std::vector<Case> drain_cases(Dialect dialect);
std::vector<Case> cost_cases(Dialect dialect);

std::vector<Case> cycle_cases(Dialect dialect);
std::vector<Case> wake_cases(Dialect dialect);
std::vector<Case> idle_cases(Dialect dialect);
std::vector<Case> held_cases(Dialect dialect);
std::vector<Case> notify_cases(Dialect dialect);

std::vector<Case> daemon_cases(Dialect dialect);

#if TWINBOX_RABBITMQ
std::vector<Case> broker_cases(Dialect dialect);
#endif

/// Of what a hand-written loop reaches.
constexpr double usual_target = 0.85;

}  // namespace twinbox::bench
