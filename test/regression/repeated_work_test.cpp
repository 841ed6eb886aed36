// One delivery named by two of its claims in one call counts once. Found by the property tests: the
// operator's forms on SQLite counted it twice.
#include "support/backend.hpp"

namespace twinbox::test {
namespace {

class RepeatedWork : public BoxTest {
 protected:
  /// The two leases of a delivery that was claimed, released and claimed again.
  std::vector<Lease> claim_twice() {
    outbox().enqueue(a_message());
    const Lease first = outbox().claim(worker_a, 30s, 1).at(0).lease();
    outbox().release(worker_a, first);
    return {first, outbox().claim(worker_a, 30s, 1).at(0).lease()};
  }
};

TEST_P(RepeatedWork, OBX_044_fail_makes_a_delivery_that_is_named_by_two_claims_dead_once) {
  EXPECT_EQ(outbox().fail(worker_a, claim_twice(), "broken"), 1u);
  EXPECT_EQ(read("select cast(count(*) as text) from {schema}outbox_outcome"), "1");
}

TEST_P(RepeatedWork, the_operator_releases_a_delivery_that_is_named_by_two_claims_once) {
  const std::vector<Lease> leases = claim_twice();
  clock().advance(31s);
  EXPECT_EQ(outbox().release(leases), 1u);
}

TWINBOX_ON_EVERY_BACKEND(RepeatedWork);

}  // namespace
}  // namespace twinbox::test
