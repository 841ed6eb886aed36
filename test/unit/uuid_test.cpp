#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "twinbox/environment.hpp"
#include "twinbox/ids.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view sample = "0192f3a4-5b6c-7d8e-9fa0-b1c2d3e4f506";

Environment fixed_environment(Instant now) {
  return {.clock = [now] { return now; }, .random = [] { return ~std::uint64_t{0}; }};
}

TEST(Uuid, survives_a_round_trip_as_text) {
  EXPECT_EQ(Uuid::parse(sample).str(), sample);
  EXPECT_EQ(Uuid::parse("0192F3A4-5B6C-7D8E-9FA0-B1C2D3E4F506").str(), sample);
  EXPECT_EQ(Uuid::parse(sample).bytes[0], 0x01);
  EXPECT_EQ(Uuid::parse(sample).bytes[15], 0x06);
}

TEST(Uuid, refuses_text_that_is_none) {
  for (const char* text :
       {"", "0192f3a4", "0192f3a45b6c7d8e9fa0b1c2d3e4f506", "0192f3a4-5b6c-7d8e-9fa0-b1c2d3e4f50",
        "g192f3a4-5b6c-7d8e-9fa0-b1c2d3e4f506", "{192f3a4-5b6c-7d8e-9fa0-b1c2d3e4f50}",
        "0192f3a4-5b6c-7d8e-9fa00b1c2d3e4f506"}) {
    EXPECT_THROW((void)Uuid::parse(text), std::invalid_argument) << text;
  }
}

TEST(Uuid, knows_zero) {
  EXPECT_TRUE(Uuid{}.is_zero());
  EXPECT_FALSE(Uuid::parse(sample).is_zero());
}

TEST(MessageId, is_a_version_7_uuid_of_the_clock_and_the_dice_handed_in) {
  const MessageId id = MessageId::make(fixed_environment(Instant{0x0192f3a45b6cms}));
  EXPECT_EQ(id.str(), "0192f3a4-5b6c-7fff-bfff-ffffffffffff");
}

TEST(MessageId, sorts_in_the_order_of_its_making_within_a_process) {
  const Environment environment;
  std::vector<std::string> ids;
  for (int i = 0; i < 20'000; ++i) ids.push_back(MessageId::make(environment).str());
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(ids.front()[14], '7');
}

TEST(MessageId, is_never_made_twice_by_many_threads) {
  // Dice that always fall the same way leave the counter alone to tell the ids apart.
  const Environment environment{.random = [] { return std::uint64_t{0}; }};
  std::vector<std::vector<std::string>> made(4);
  {
    std::vector<std::jthread> threads;
    for (auto& ids : made) {
      threads.emplace_back([&ids, &environment] {
        for (int i = 0; i < 2'000; ++i) ids.push_back(MessageId::make(environment).str());
      });
    }
  }
  std::set<std::string> all;
  for (const auto& ids : made) {
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
    all.insert(ids.begin(), ids.end());
  }
  EXPECT_EQ(all.size(), 8'000u);
}

TEST(OwnerToken, is_a_random_version_4_uuid) {
  const OwnerToken token = OwnerToken::make(Environment{});
  EXPECT_EQ(token.str()[14], '4');
  EXPECT_EQ(token.uuid().bytes[8] & 0xC0, 0x80);
  EXPECT_NE(token, OwnerToken::make(Environment{}));
}

TEST(OwnerToken, is_never_all_zero) {
  EXPECT_THROW(OwnerToken{Uuid{}}, std::invalid_argument);
  EXPECT_EQ(OwnerToken{Uuid::parse(sample)}.str(), sample);
}

}  // namespace
}  // namespace twinbox
