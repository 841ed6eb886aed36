#include <gtest/gtest.h>

#include "database/pool.hpp"
#include "sql/render.hpp"
#include "twinbox/testing.hpp"

namespace twinbox {
namespace {

TEST(FaultPlan, the_driver_answers_like_the_one_inside) {
  FaultPlan plan;
  Database faulty = open_faulty("sqlite:/tmp/never_opened.db", plan);
  Database plain{"sqlite:/tmp/never_opened.db"};
  const Driver& one = pool_of(faulty).driver();
  const Driver& other = pool_of(plain).driver();
  EXPECT_EQ(one.dialect(), other.dialect());
  EXPECT_EQ(one.describe(), other.describe());
  EXPECT_EQ(one.location().server, other.location().server);
  EXPECT_EQ(one.location().database, other.location().database);
  EXPECT_EQ(one.shape(3).readers, other.shape(3).readers);
  EXPECT_TRUE(one.watch({"infra", "outbox"}));
  EXPECT_EQ(faulty.name(), plain.name());
}

TEST(FaultPlan, a_database_in_memory_has_no_location_that_others_share) {
  FaultPlan plan;
  Database faulty = open_faulty("sqlite::memory:", plan);
  EXPECT_EQ(pool_of(faulty).driver().location().database, "");
  EXPECT_FALSE(pool_of(faulty).driver().watch({"infra", "outbox"}));
}

}  // namespace
}  // namespace twinbox
