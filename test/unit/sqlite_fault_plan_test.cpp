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
  const Driver& one = faulty.pool().driver();
  const Driver& other = plain.pool().driver();
  EXPECT_EQ(one.dialect(), other.dialect());
  EXPECT_EQ(one.describe(), other.describe());
  EXPECT_EQ(one.place().server, other.place().server);
  EXPECT_EQ(one.place().database, other.place().database);
  EXPECT_EQ(one.shape(3).readers, other.shape(3).readers);
  EXPECT_TRUE(one.watch({"infra", "outbox"}));
  EXPECT_EQ(faulty.name(), plain.name());
}

TEST(FaultPlan, a_database_in_memory_has_no_place_that_others_share) {
  FaultPlan plan;
  Database faulty = open_faulty("sqlite::memory:", plan);
  EXPECT_EQ(faulty.pool().driver().place().database, "");
  EXPECT_FALSE(faulty.pool().driver().watch({"infra", "outbox"}));
}

}  // namespace
}  // namespace twinbox
