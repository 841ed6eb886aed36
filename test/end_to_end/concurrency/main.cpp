// Runs the tests, or one of the processes that they start.
#include <gtest/gtest.h>

#include "end_to_end/concurrency/role.hpp"

int main(int count, char** words) {
  if (const auto role = twinbox::test::role_of(count, words)) return twinbox::test::run_role(*role);
  ::testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
