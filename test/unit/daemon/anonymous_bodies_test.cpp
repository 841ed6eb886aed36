#include "daemon/http/anonymous_bodies.hpp"

#include <string>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

class AnonymousBodiesTest : public testing::Test {
 protected:
  AnonymousBodies::Id grow(AnonymousBodies::Id body, std::size_t bytes, const std::string& name) {
    return bodies_.grow(body, bytes, 10, [this, name] { dropped_ += name; });
  }

  AnonymousBodies bodies_;
  std::string dropped_;
};

TEST_F(AnonymousBodiesTest, the_one_that_has_been_silent_longest_makes_room) {
  auto a = grow(0, 3, "a");
  const auto b = grow(0, 3, "b");
  a = grow(a, 1, "a");
  const auto c = grow(0, 5, "c");
  EXPECT_EQ(dropped_, "b");
  EXPECT_EQ(bodies_.used(), 9u);
  EXPECT_EQ(grow(b, 1, "b"), 0u);
  EXPECT_FALSE(bodies_.complete(b));
  bodies_.end(b);
  EXPECT_TRUE(bodies_.complete(a));
  EXPECT_TRUE(bodies_.complete(c));
  EXPECT_EQ(bodies_.used(), 9u);
  bodies_.release_body(4);
  bodies_.release_body(5);
  EXPECT_EQ(bodies_.used(), 0u);
}

TEST_F(AnonymousBodiesTest, as_many_make_room_as_are_needed_and_none_where_that_would_not_do) {
  const auto kept = grow(0, 4, "kept");
  ASSERT_TRUE(bodies_.complete(kept));
  ASSERT_NE(grow(0, 2, "a"), 0u);
  ASSERT_NE(grow(0, 2, "b"), 0u);
  ASSERT_NE(grow(0, 2, "c"), 0u);
  EXPECT_EQ(grow(0, 7, "d"), 0u);
  EXPECT_EQ(dropped_, "");
  EXPECT_NE(grow(0, 3, "e"), 0u);
  EXPECT_EQ(dropped_, "ab");
  EXPECT_EQ(bodies_.used(), 9u);
}

TEST_F(AnonymousBodiesTest, one_that_grows_beyond_the_limit_by_itself_holds_nothing) {
  const auto a = grow(0, 9, "a");
  EXPECT_EQ(grow(a, 2, "a"), 0u);
  EXPECT_EQ(bodies_.used(), 0u);
  EXPECT_EQ(dropped_, "");
}

TEST_F(AnonymousBodiesTest, one_that_ends_frees_its_room) {
  const auto a = grow(0, 9, "a");
  bodies_.end(a);
  bodies_.end(a);
  EXPECT_EQ(bodies_.used(), 0u);
}

}  // namespace
}  // namespace twinbox::app
