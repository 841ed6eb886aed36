// What is to come again later waits with the server, without a server.
#include <gtest/gtest.h>

#include "transport/delivery_desk.hpp"
#include "transport/nats/given_back.hpp"

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;

class DeliveryDeskThatGivesBack : public ::testing::Test {
 protected:
  Delivery delivery(std::uint64_t tag, const std::string& id, int failures = 0) {
    return {tag, Arrival{Source{"s"}, MessageId{id}, Topic{"t"}, "x"}, {}, failures, true};
  }
  std::vector<Accepted> accept(std::span<const Arrival> arrivals) {
    for (const Arrival& one : arrivals) {
      if (one.id.view() == "bad") throw std::runtime_error("refused");
    }
    return std::vector<Accepted>(arrivals.size(), Accepted{Acceptance::accepted});
  }

  const DeliveryDesk::Time now = DeliveryDesk::Time{} + 1h;
  DeliveryDesk desk{[this](std::span<const Arrival> arrivals) { return accept(arrivals); },
                    {.max_retries = 2, .delay = 1s, .max_delay = 10s},
                    "test",
                    {}};
};

TEST_F(DeliveryDeskThatGivesBack, does_not_keep_what_failed_and_says_when_it_is_to_come_again) {
  desk.add(delivery(1, "bad"));
  desk.add(delivery(2, "good"));
  const auto settled = desk.step(now);
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_FALSE(settled[0].accepted);
  EXPECT_EQ(settled[0].again_after, Duration{1s});
  EXPECT_TRUE(settled[1].accepted);
  EXPECT_EQ(desk.size(), 0u);
  EXPECT_FALSE(desk.next());
  EXPECT_EQ(desk.retried(), 1u);
}

TEST_F(DeliveryDeskThatGivesBack, goes_on_counting_where_it_was) {
  desk.add(delivery(1, "bad", 1));
  EXPECT_EQ(desk.step(now).at(0).again_after, Duration{2s});
  desk.add(delivery(1, "bad", 2));
  const auto settled = desk.step(now);
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_FALSE(settled[0].accepted);
  EXPECT_FALSE(settled[0].again_after) << "a dead letter";
  EXPECT_EQ(settled[0].error, "refused");
}

TEST_F(DeliveryDeskThatGivesBack, tells_of_the_error_until_it_is_to_come_again) {
  desk.add(delivery(1, "bad"));
  desk.step(now);
  desk.add(delivery(2, "good"));
  desk.step(now);
  EXPECT_EQ(desk.last_error(), "refused");
  desk.add(delivery(3, "good"));
  desk.step(now + 1s);
  EXPECT_EQ(desk.last_error(), "");
}

TEST(NatsGivenBack, counts_the_failures_of_each_until_it_is_settled) {
  nats::GivenBack given_back;
  given_back.add(7, "first");
  given_back.add(7, "second");
  given_back.add(8, "other");
  EXPECT_EQ(given_back.failures(7), 2);
  EXPECT_EQ(given_back.all().at(7).reply, "second");
  given_back.settled(7);
  EXPECT_EQ(given_back.failures(7), 0);
  EXPECT_EQ(given_back.failures(8), 1);
}

TEST(NatsGivenBack, forgets_what_others_have_acknowledged_and_what_a_new_stream_does_not_have) {
  nats::GivenBack given_back;
  for (std::uint64_t number = 1; number <= 5; ++number) given_back.add(number, "");
  given_back.told(2, 4);
  EXPECT_EQ(given_back.all().size(), 2u);
  EXPECT_EQ(given_back.failures(3), 1);
  EXPECT_EQ(given_back.failures(4), 1);
}

TEST(NatsGivenBack, has_a_bound_and_forgets_the_oldest) {
  nats::GivenBack given_back;
  for (std::uint64_t number = 1; number <= nats::GivenBack::most + 1; ++number) {
    given_back.add(number, "");
  }
  EXPECT_EQ(given_back.all().size(), nats::GivenBack::most);
  EXPECT_EQ(given_back.failures(1), 0);
}

}  // namespace
}  // namespace twinbox::test
