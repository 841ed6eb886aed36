// The stores that several processes can share, and how long a campaign is.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "support/backend.hpp"

namespace twinbox::test {

inline std::vector<Backend> shared_backends() {
  std::vector<Backend> all = backends();
  std::erase(all, Backend::sqlite_memory);
  return all;
}

/// Runs `round` once, and again until TWINBOX_CAMPAIGN_SECONDS are over or a test has failed.
template <class Round>
void campaign(Round round) {
  using Clock = std::chrono::steady_clock;
  const char* seconds = std::getenv("TWINBOX_CAMPAIGN_SECONDS");
  const auto end = Clock::now() + std::chrono::seconds{seconds == nullptr ? 0 : std::atoi(seconds)};
  do {
    round();
  } while (!::testing::Test::HasFailure() && Clock::now() < end);
}

}  // namespace twinbox::test

#define TWINBOX_ON_EVERY_SHARED_BACKEND(Suite)                             \
  INSTANTIATE_TEST_SUITE_P(                                                \
      all, Suite, ::testing::ValuesIn(::twinbox::test::shared_backends()), \
      [](const auto& test) { return ::twinbox::test::to_string(test.param); })
