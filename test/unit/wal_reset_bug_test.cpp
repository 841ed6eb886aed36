// Which versions of SQLite have the WAL-reset bug.
#include "health/wal_reset_bug.hpp"

#include <gtest/gtest.h>

namespace twinbox {
namespace {

TEST(WalResetBug, is_in_every_version_before_the_fix_and_its_two_backports) {
  for (const char* version : {"3.7.0", "3.40.1", "3.43.2", "3.44.5", "3.45.0", "3.46.1", "3.49.2",
                              "3.50.0", "3.50.6", "3.51.0", "3.51.2"}) {
    EXPECT_TRUE(has_wal_reset_bug(version)) << version;
  }
  for (const char* version :
       {"3.44.6", "3.44.7", "3.50.7", "3.51.3", "3.52.0", "3.53.0", "3.60.1", "4.0.0", "4.44.1"}) {
    EXPECT_FALSE(has_wal_reset_bug(version)) << version;
  }
}

}  // namespace
}  // namespace twinbox
