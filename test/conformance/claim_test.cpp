// Claiming: who gets what, and when.
#include "support/backend.hpp"

namespace twinbox::test {
namespace {

class Claim : public BoxTest {};

TEST_P(Claim, OBX_019_passes_over_a_message_another_worker_has_leased) {
  outbox().enqueue(a_message());
  ASSERT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 10).empty());
  clock().advance(31s);
  EXPECT_EQ(outbox().claim(worker_b, 30s, 10).size(), 1u);
}

TWINBOX_ON_EVERY_BACKEND(Claim);

}  // namespace
}  // namespace twinbox::test
