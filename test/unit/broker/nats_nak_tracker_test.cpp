// What is to come again later waits with the server, without a server.
#include <gtest/gtest.h>

#include "transport/accept_buffer.hpp"
#include "transport/nats/nak_tracker.hpp"

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;

class AcceptBufferWithRedelivery : public ::testing::Test {
 protected:
  BrokerDelivery delivery(std::uint64_t tag, const std::string& id, int failures = 0) {
    return {tag, Arrival{Source{"s"}, MessageId{id}, Topic{"t"}, "x"}, {}, failures, true};
  }
  std::vector<Accepted> accept(std::span<const Arrival> arrivals) {
    for (const Arrival& one : arrivals) {
      if (one.id.view() == "bad") throw std::runtime_error("refused");
    }
    return std::vector<Accepted>(arrivals.size(), Accepted{Acceptance::accepted});
  }

  const AcceptBuffer::Time now = AcceptBuffer::Time{} + 1h;
  AcceptBuffer buffer{[this](std::span<const Arrival> arrivals) { return accept(arrivals); },
                      {.max_retries = 2, .delay = 1s, .max_delay = 10s},
                      "test",
                      {}};
};

TEST_F(AcceptBufferWithRedelivery, does_not_keep_what_failed_and_says_when_to_redeliver_it) {
  buffer.add(delivery(1, "bad"));
  buffer.add(delivery(2, "good"));
  const auto settled = buffer.step(now);
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_FALSE(settled[0].accepted);
  EXPECT_EQ(settled[0].redeliver_after, Duration{1s});
  EXPECT_TRUE(settled[1].accepted);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_FALSE(buffer.next());
  EXPECT_EQ(buffer.retried(), 1u);
}

TEST_F(AcceptBufferWithRedelivery, goes_on_counting_where_it_was) {
  buffer.add(delivery(1, "bad", 1));
  EXPECT_EQ(buffer.step(now).at(0).redeliver_after, Duration{2s});
  buffer.add(delivery(1, "bad", 2));
  const auto settled = buffer.step(now);
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_FALSE(settled[0].accepted);
  EXPECT_FALSE(settled[0].redeliver_after) << "a dead letter";
  EXPECT_EQ(settled[0].error, "refused");
}

TEST_F(AcceptBufferWithRedelivery, tells_of_the_error_until_it_is_to_come_again) {
  buffer.add(delivery(1, "bad"));
  buffer.step(now);
  buffer.add(delivery(2, "good"));
  buffer.step(now);
  EXPECT_EQ(buffer.last_error(), "refused");
  buffer.add(delivery(3, "good"));
  buffer.step(now + 1s);
  EXPECT_EQ(buffer.last_error(), "");
}

TEST(NatsNakTracker, counts_the_failures_of_each_until_it_is_settled) {
  nats::NakTracker naks;
  naks.add(7, "first");
  naks.add(7, "second");
  naks.add(8, "other");
  EXPECT_EQ(naks.failures(7), 2);
  EXPECT_EQ(naks.all().at(7).reply, "second");
  naks.settled(7);
  EXPECT_EQ(naks.failures(7), 0);
  EXPECT_EQ(naks.failures(8), 1);
}

TEST(NatsNakTracker, forgets_what_others_have_acknowledged_and_what_a_new_stream_does_not_have) {
  nats::NakTracker naks;
  for (std::uint64_t number = 1; number <= 5; ++number) naks.add(number, "");
  naks.update(2, 4);
  EXPECT_EQ(naks.all().size(), 2u);
  EXPECT_EQ(naks.failures(3), 1);
  EXPECT_EQ(naks.failures(4), 1);
}

TEST(NatsNakTracker, has_a_bound_and_forgets_the_oldest) {
  nats::NakTracker naks;
  for (std::uint64_t number = 1; number <= nats::NakTracker::max_entries + 1; ++number) {
    naks.add(number, "");
  }
  EXPECT_EQ(naks.all().size(), nats::NakTracker::max_entries);
  EXPECT_EQ(naks.failures(1), 0);
}

}  // namespace
}  // namespace twinbox::test
