// The simulator itself, and the seeds of bugs it has found.
#include <gtest/gtest.h>

#include "simulation/world.hpp"

namespace twinbox::simulation {
namespace {

TEST(Simulation, a_world_is_the_same_each_time_it_is_run) {
  for (const bool on_file : {false, true}) {
    const WorldOptions options{.seed = 7, .on_file = on_file};
    EXPECT_EQ(run_world(options), run_world(options));
  }
}

TEST(Simulation, worlds_keep_every_promise) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const WorldReport report = run_world({.seed = seed, .on_file = seed % 4 == 0});
    EXPECT_EQ(report.violation, "") << "seed " << seed;
    EXPECT_GT(report.claims, 0u);
  }
}

TEST(Simulation, a_commit_that_lies_is_found) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    found += run_world({.seed = seed, .commits_lie = true}).violation.empty() ? 0 : 1;
  }
  // Not every lie does harm: a release that never happened is only late.
  EXPECT_GT(found, 0);
}

TEST(DispatchSimulation, a_world_is_the_same_each_time_it_is_run) {
  const WorldOptions options{.seed = 7};
  EXPECT_EQ(run_dispatch_world(options), run_dispatch_world(options));
}

TEST(DispatchSimulation, worlds_keep_every_promise) {
  std::uint64_t stale = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const WorldReport report = run_dispatch_world({.seed = seed});
    EXPECT_EQ(report.violation, "") << "seed " << seed;
    EXPECT_GT(report.calls, 0u);
    stale += report.stale;
  }
  // Else nothing that hangs was ever overtaken.
  EXPECT_GT(stale, 0u);
}

// Seeds that failed ("open after its last attempt") before the last attempt of a call that is put
// back on errors made a dead letter.
TEST(DispatchSimulation, a_call_that_is_released_ends_with_its_last_attempt) {
  for (const std::uint64_t seed : {9U, 23U, 28U, 31U, 37U}) {
    EXPECT_EQ(run_dispatch_world({.seed = seed}).violation, "") << "seed " << seed;
  }
}

TEST(DispatchSimulation, a_commit_that_lies_is_found) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    found += run_dispatch_world({.seed = seed, .commits_lie = true}).violation.empty() ? 0 : 1;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace twinbox::simulation
