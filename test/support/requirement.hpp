// Says which written requirements a test proves, besides those in its name.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace twinbox::testing_support {

/// Adds `ids` ("IBX-034" or "IBX-034, IBX-035") to the running test's property `requirement`.
inline void record_requirement(const std::string& ids) {
  static const ::testing::TestInfo* recorded_for = nullptr;
  static std::string recorded;
  const ::testing::TestInfo* running = ::testing::UnitTest::GetInstance()->current_test_info();
  if (running != recorded_for) {
    recorded_for = running;
    recorded.clear();
  }
  recorded += recorded.empty() ? ids : "," + ids;
  // A second property of the same name replaces the first, hence the sum.
  ::testing::Test::RecordProperty("requirement", recorded);
}

}  // namespace twinbox::testing_support

#define REQUIREMENT(ids) ::twinbox::testing_support::record_requirement(ids)
