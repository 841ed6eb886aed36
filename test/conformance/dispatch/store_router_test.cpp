#include "support/set_test.hpp"
#include <twinbox/stores.hpp>

namespace twinbox::test {
namespace {

class RouterTest : public SetTest {
 protected:
  template <class F>
  static std::string refusal(F body) {
    try {
      body();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_P(RouterTest, OBX_072_IBX_091_finds_the_boxes_of_a_key) {
  const DatabaseSet set({define("north"), define("south")}, {}, environment());
  const StoreRouter router(set);
  router.outbox("south")->enqueue(a_message());
  router.inbox("north")->accept(an_arrival());
  EXPECT_EQ(set.find("south")->outbox().claim(worker).size(), 1u);
  EXPECT_EQ(set.find("north")->inbox().claim(worker).size(), 1u);
  EXPECT_EQ(router.store("north"), set.find("north"));
}

TEST_P(RouterTest, OBX_102_IBX_123_answers_the_same_box_each_time) {
  const DatabaseSet set({define("north")}, {}, environment());
  const StoreRouter router(set);
  EXPECT_EQ(router.outbox("north"), router.outbox("north"));
  EXPECT_EQ(router.inbox("north"), router.inbox("north"));
  EXPECT_EQ(router.outbox("north").get(), &set.find("north")->outbox());
}

TEST_P(RouterTest, OBX_073_IBX_092_refuses_a_key_that_has_no_store) {
  const DatabaseSet set({define("north"), define("south")}, {}, environment());
  const StoreRouter router(set);
  const std::string expected =
      "no store for key 'west': 2 stores are known; add its definition, or let the set refresh() "
      "if it is new";
  EXPECT_EQ(refusal([&] { (void)router.outbox("west"); }), expected);
  EXPECT_EQ(refusal([&] { (void)router.inbox("west"); }), expected);
  EXPECT_THROW((void)router.outbox(""), UsageError);
  EXPECT_THROW((void)router.outbox("North"), UsageError);
  const std::string longest(100'000, 'x');
  EXPECT_LT(refusal([&] { (void)router.outbox(longest); }).size(), 300u);
}

TEST_P(RouterTest, OBX_074_takes_a_uuid_as_the_same_key_as_its_text) {
  const auto key = Uuid::parse("6BA7B810-9DAD-11D1-80B4-00C04FD430C8");
  const DatabaseSet set({define("6ba7b810-9dad-11d1-80b4-00c04fd430c8")}, {}, environment());
  const StoreRouter router(set);
  EXPECT_EQ(router.outbox(key), router.outbox("6ba7b810-9dad-11d1-80b4-00c04fd430c8"));
  EXPECT_EQ(router.inbox(key), router.inbox("6ba7b810-9dad-11d1-80b4-00c04fd430c8"));
  EXPECT_EQ(refusal([&] { (void)router.outbox(Uuid{}); }).substr(0, 56),
            "no store for key '00000000-0000-0000-0000-000000000000':");
}

TEST_P(RouterTest, lets_the_program_say_which_store_a_key_belongs_to) {
  const DatabaseSet set({define("shard0"), define("shard1")}, {}, environment());
  const StoreRouter router(
      set, [](std::string_view key) { return "shard" + std::to_string(key.size() % 3); });
  EXPECT_EQ(router.store("abc")->name(), "shard0");
  EXPECT_EQ(router.store("abcd")->name(), "shard1");
  EXPECT_EQ(refusal([&] { (void)router.store("ab"); }).substr(0, 62),
            "no store for key 'ab', whose store would be 'shard2': 2 stores");
}

TEST_P(RouterTest, leaves_an_answer_valid_after_its_store_was_removed) {
  std::vector<StoreDefinition> found{define("north")};
  DatabaseSet set([&] { return found; }, {}, environment());
  const StoreRouter router(set);
  const auto outbox = router.outbox("north");
  found.clear();
  set.refresh();
  EXPECT_THROW((void)router.outbox("north"), UsageError);
  outbox->enqueue(a_message());
  EXPECT_EQ(outbox->claim(worker).size(), 1u);
}

TWINBOX_ON_EVERY_BACKEND(RouterTest);

}  // namespace
}  // namespace twinbox::test
