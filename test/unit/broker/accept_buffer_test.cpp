// Deliveries that fail, without a broker and without waiting.
#include "transport/accept_buffer.hpp"

#include <gtest/gtest.h>

#include <twinbox/error.hpp>

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
using Kind = DatabaseError::Kind;
using Time = AcceptBuffer::Time;
using Ids = std::vector<std::string>;

class AcceptBufferWith : public ::testing::Test {
 protected:
  BrokerDelivery delivery(std::uint64_t tag, const std::string& id, const std::string& key = {}) {
    Arrival arrival{Source{"s"}, MessageId{id}, Topic{"t"}, "x"};
    if (!key.empty()) arrival.extras.partition_key = PartitionKey{key};
    return {tag, arrival};
  }
  std::vector<Accepted> accept(std::span<const Arrival> arrivals) {
    ++calls;
    for (const Arrival& one : arrivals) {
      if (fail) fail(one);
    }
    for (const Arrival& one : arrivals) accepted.push_back(one.id.str());
    return std::vector<Accepted>(arrivals.size(), Accepted{Acceptance::accepted});
  }

  std::function<void(const Arrival&)> fail;
  Ids accepted;
  int calls = 0;
  const Time now = Time{} + 1h;
  AcceptBuffer buffer{[this](std::span<const Arrival> arrivals) { return accept(arrivals); },
                      {.max_retries = 2, .delay = 1s, .max_delay = 10s},
                      "test",
                      {}};
};

TEST_F(AcceptBufferWith, good_ones_accepts_them_in_one_call) {
  for (std::uint64_t tag = 1; tag <= 3; ++tag) buffer.add(delivery(tag, std::to_string(tag)));
  EXPECT_EQ(buffer.step(now).size(), 3u);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(buffer.next());
}

TEST_F(AcceptBufferWith, one_that_is_refused_for_good_gives_it_up_at_once) {
  fail = [](const Arrival& one) {
    if (one.id.view() == "bad") throw RequestError(403, "reserved");
  };
  buffer.add(delivery(1, "bad", "key"));
  buffer.add(delivery(2, "good", "key"));
  const auto settled = buffer.step(now);
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_FALSE(settled[0].accepted);
  EXPECT_FALSE(settled[0].redeliver_after);
  EXPECT_EQ(settled[0].error, "reserved");
  EXPECT_TRUE(settled[1].accepted);
  EXPECT_EQ(buffer.retried(), 0u);
}

TEST_F(AcceptBufferWith, trouble_that_is_over_says_no_more_of_it) {
  bool away = true;
  fail = [&](const Arrival& one) {
    if (away) throw DatabaseError(Kind::connection_lost, "away");
    if (one.id.view() == "bad") throw std::runtime_error("refused");
  };
  buffer.add(delivery(1, "good"));
  buffer.step(now);
  EXPECT_EQ(buffer.last_error(), "away");
  away = false;
  buffer.step(now + 1min);
  EXPECT_EQ(buffer.last_error(), "");
  buffer.add(delivery(2, "bad"));
  buffer.step(now + 2min);
  buffer.add(delivery(3, "good"));
  EXPECT_EQ(buffer.step(now + 2min).size(), 1u);
  EXPECT_EQ(buffer.last_error(), "refused") << "it is to be tried again";
}

TEST_F(AcceptBufferWith, a_bad_one_repeats_it_with_growing_delays_and_gives_it_up) {
  fail = [](const Arrival& one) {
    if (one.id.view() == "bad") throw std::runtime_error("refused");
  };
  buffer.add(delivery(1, "bad"));
  buffer.add(delivery(2, "good"));
  auto settled = buffer.step(now);
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_EQ(settled[0].tag, 2u);
  EXPECT_EQ(buffer.next(), now + 1s);
  EXPECT_TRUE(buffer.step(now + 999ms).empty());
  EXPECT_TRUE(buffer.step(now + 1s).empty());
  EXPECT_EQ(buffer.next(), now + 3s);
  settled = buffer.step(now + 3s);
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_FALSE(settled[0].accepted);
  EXPECT_EQ(settled[0].error, "refused");
  EXPECT_EQ(buffer.size(), 0u);
}

TEST_F(AcceptBufferWith, a_partition_key_that_waits_holds_its_followers_and_no_others) {
  bool bad = true;
  fail = [&](const Arrival& one) {
    if (bad && one.id.view() == "1") throw std::runtime_error("not yet");
  };
  buffer.add(delivery(1, "1", "k"));
  buffer.add(delivery(2, "2", "k"));
  buffer.add(delivery(3, "3", "other"));
  EXPECT_EQ(buffer.step(now).size(), 1u);
  EXPECT_EQ(accepted, Ids{"3"});
  buffer.add(delivery(4, "4", "k"));
  EXPECT_TRUE(buffer.step(now).empty());
  EXPECT_EQ(buffer.next(), now + 1s);
  bad = false;
  EXPECT_EQ(buffer.step(now + 1s).size(), 3u);
  EXPECT_EQ(accepted, (Ids{"3", "1", "2", "4"}));
}

TEST_F(AcceptBufferWith, a_store_that_is_away_waits_for_it_without_counting) {
  bool away = true;
  fail = [&](const Arrival&) {
    if (away) throw DatabaseError(Kind::connection_lost, "gone");
  };
  buffer.add(delivery(1, "1"));
  buffer.add(delivery(2, "2"));
  Time time = now;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(buffer.step(time).empty());
    ASSERT_TRUE(buffer.next());
    EXPECT_GT(*buffer.next(), time);
    time = *buffer.next();
  }
  EXPECT_EQ(calls, 20);
  EXPECT_EQ(buffer.retried(), 0u);
  away = false;
  EXPECT_EQ(buffer.step(time).size(), 2u);
  EXPECT_EQ(accepted, (Ids{"1", "2"}));
}

TEST_F(AcceptBufferWith, a_store_that_is_away_is_not_asked_without_rest_whatever_the_delay) {
  AcceptBuffer hasty{[this](std::span<const Arrival> arrivals) { return accept(arrivals); },
                     {.max_retries = 2, .delay = 0s, .max_delay = 0s},
                     "test",
                     {}};
  fail = [](const Arrival&) { throw DatabaseError(Kind::connection_lost, "gone"); };
  hasty.add(delivery(1, "1"));
  EXPECT_TRUE(hasty.step(now).empty());
  EXPECT_GE(hasty.next().value(), now + 100ms);
}

class AcceptBufferWithError : public AcceptBufferWith, public ::testing::WithParamInterface<Kind> {
 protected:
  /// Whether the message is given up when the store fails like that again and again.
  bool gives_it_up() {
    fail = [](const Arrival&) { throw DatabaseError(GetParam(), "trouble"); };
    buffer.add(delivery(1, "1"));
    Time time = now;
    for (int i = 0; i < 20; ++i) {
      if (!buffer.step(time).empty()) return true;
      time = buffer.next().value();
    }
    EXPECT_EQ(buffer.retried(), 0u);
    EXPECT_EQ(buffer.last_error(), "trouble");
    return false;
  }
};

TEST_P(AcceptBufferWithError, of_a_store_counts_only_what_may_be_the_messages_own_fault) {
  EXPECT_EQ(gives_it_up(), GetParam() == Kind::invalid_request);
}

INSTANTIATE_TEST_SUITE_P(each, AcceptBufferWithError,
                         ::testing::Values(Kind::connection_lost, Kind::contention,
                                           Kind::commit_in_doubt, Kind::out_of_space,
                                           Kind::read_only, Kind::corrupt, Kind::permission,
                                           Kind::missing_schema, Kind::cancelled,
                                           Kind::invalid_request, Kind::other),
                         [](const auto& one) { return std::string{to_string(one.param)}; });

TEST_F(AcceptBufferWith, dropped_ones_forgets_them_and_lets_their_partition_key_go_on) {
  bool bad = true;
  fail = [&](const Arrival& one) {
    if (bad && one.id.view() == "1") throw std::runtime_error("not yet");
  };
  for (std::uint64_t tag = 1; tag <= 3; ++tag) buffer.add(delivery(tag, std::to_string(tag), "k"));
  EXPECT_TRUE(buffer.step(now).empty());
  buffer.drop({1, 2});
  EXPECT_EQ(buffer.size(), 1u);
  EXPECT_EQ(buffer.step(now).size(), 1u);
  EXPECT_EQ(accepted, Ids{"3"});
  EXPECT_FALSE(buffer.next());
}

TEST_F(AcceptBufferWith, what_is_no_message_gives_it_up_at_once) {
  buffer.add({7, {}, "no id"});
  const auto settled = buffer.step(now);
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_FALSE(settled[0].accepted);
  EXPECT_EQ(settled[0].error, "no id");
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace twinbox::test
