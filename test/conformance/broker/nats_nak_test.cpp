// What NATS JetStream delivers and an inbox does not take yet: given back, to come again later.
#include "nats_test.hpp"
#include <twinbox/error.hpp>

namespace twinbox::test {
namespace {

using Ids = std::vector<std::string>;

class NatsNak : public NatsTest {
 protected:
  /// Nothing comes again by itself: only what is given back.
  NatsSourceOptions patient() {
    NatsSourceOptions options = source_options();
    options.ack_wait = 1h;
    return options;
  }
  /// Takes everything but the message "bad", which `refuses` decides about.
  AcceptCall accept_unless(std::function<bool()> refuses) {
    return [this, &box = inbox(), refuses = std::move(refuses)](std::span<const Arrival> arrivals) {
      for (const Arrival& one : arrivals) {
        if (one.id.view() == "bad" && refuses()) throw std::runtime_error("not yet");
      }
      for (const Arrival& one : arrivals) order.push_back(one.id.str());
      return box.accept(arrivals);
    };
  }
  RunningNats run_unless(std::function<bool()> refuses, const NatsSourceOptions& options,
                         const NatsConnection& to = connection()) {
    return {to, options, accept_unless(std::move(refuses)), environment()};
  }
  static bool always() { return true; }
  /// From now on `nats.next()` is what a source says about its deliveries.
  void watch() { nats.watch("$JS.ACK." + stream + ".box.>"); }
  /// What was not accepted is there still, and comes to whoever is next.
  void expect_taken_by_the_next(const NatsSourceOptions& options) {
    EXPECT_EQ(left(), 1u);
    RunningNats next = run(options);
    ASSERT_TRUE(next.wait_for(1));
    next.stop();
    EXPECT_TRUE(acknowledged());
  }
  std::size_t failures() { return log().events("accept_failed").size(); }
  std::uint64_t deliveries() { return nats.deliveries(stream, "box"); }

  Ids order;
};

TEST_P(NatsNak, PHD_30_what_fails_comes_again_from_the_server_and_leaves_its_place_to_others) {
  make_stream();
  send("bad");
  send("other");
  NatsSourceOptions options = patient();
  options.prefetch = 1;  // repeated in its place, it would never let the other one come
  options.retry = {.max_retries = 1000, .delay = 1ms, .max_delay = 10ms};
  options.max_deliver = 0;
  RunningNats source = run_unless([&] { return failures() < 2 || order.empty(); }, options);
  ASSERT_TRUE(source.wait_for(2));
  source.stop();
  EXPECT_EQ(order, (Ids{"other", "bad"}));
  EXPECT_GE(failures(), 2u);
  EXPECT_EQ(deliveries(), failures() + 2) << "one for each attempt";
  EXPECT_EQ(source.status().retried, failures());
  EXPECT_TRUE(acknowledged());
}

TEST_P(NatsNak, PHD_30_after_max_retries_it_is_a_dead_letter_with_the_error) {
  make_stream();
  send("bad");
  NatsSourceOptions options = patient();
  options.prefetch = 1;
  RunningNats source = run_unless(always, options);
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_EQ(failures(), 3u);
  EXPECT_EQ(deliveries(), 3u);
  EXPECT_EQ(dead_letters().at(0).headers.at("twinbox-error"), "not%20yet");
  EXPECT_TRUE(acknowledged());
}

TEST_P(NatsNak, PHD_30_failures_count_across_connections) {
  make_all();
  send("bad");
  Relay relay{port_of(Nats::url())};
  watch();
  NatsSourceOptions options = source_options();
  options.retry = {.max_retries = 1, .delay = 300ms};
  RunningNats source = run_unless(always, options, connection(relay));
  EXPECT_EQ(nats.next(), R"(-NAK {"delay":300000000})");
  relay.cut();
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_EQ(failures(), 2u);
}

TEST_P(NatsNak, what_has_a_partition_key_is_repeated_here_and_keeps_its_order) {
  make_stream();
  for (const char* id : {"bad", "second", "third"}) {
    send(id, "order.placed", {{"twinbox-partition-key", "customer"}});
  }
  RunningNats source = run_unless([&] { return failures() < 2; }, patient());
  ASSERT_TRUE(source.wait_for(3));
  source.stop();
  EXPECT_EQ(order, (Ids{"bad", "second", "third"}));
  EXPECT_EQ(deliveries(), 3u) << "none was given back";
}

TEST_P(NatsNak, what_waits_comes_at_once_to_the_next_after_a_stop) {
  make_stream();
  send("bad");
  NatsSourceOptions options = patient();
  options.retry.delay = 1h;
  {
    RunningNats source = run_unless(always, options);
    ASSERT_TRUE(eventually([&] { return source.status().retried == 1; }));
    EXPECT_EQ(source.status().error, "not yet");
  }
  expect_taken_by_the_next(options);
}

TEST_P(NatsNak, what_waits_comes_again_when_the_process_is_gone) {
  make_all();
  send("bad");
  NatsSourceOptions options = source_options();
  options.retry.delay = 300ms;
  {
    Relay relay{port_of(Nats::url())};
    watch();
    RunningNats source = run_unless(always, options, connection(relay));
    EXPECT_EQ(nats.next(), R"(-NAK {"delay":300000000})");
    relay.refuse_connections();
  }
  expect_taken_by_the_next(options);
}

TEST_P(NatsNak, what_waits_holds_no_partition_key_up_when_the_connection_was_lost) {
  make_stream();
  send("bad");
  Relay relay{port_of(Nats::url())};
  watch();
  NatsSourceOptions options = patient();
  options.retry.delay = 1h;
  RunningNats source = run_unless(always, options, connection(relay));
  nats.next();
  relay.cut();
  ASSERT_TRUE(eventually([&] { return log().events("broker_connected").size() == 2; }));
  send("good", "order.placed", {{"twinbox-partition-key", "customer"}});
  EXPECT_TRUE(source.wait_for(1));
}

TEST_P(NatsNak, what_waited_lets_no_partition_key_overtake_when_the_connection_was_lost) {
  make_all();
  const std::map<std::string, std::string> keyed = {{"twinbox-partition-key", "customer"}};
  Relay relay{port_of(Nats::url())};
  watch();
  NatsSourceOptions options = source_options();
  options.retry.delay = 300ms;
  std::atomic<bool> cut = false;
  AcceptCall accept = accept_unless([&] { return failures() < 1; });
  RunningNats source{connection(relay), options,
                     [&](std::span<const Arrival> arrivals) {
                       for (const Arrival& one : arrivals) {
                         if (one.id.view() != "first" || cut.exchange(true)) continue;
                         relay.cut();
                         throw DatabaseError(DatabaseError::Kind::connection_lost, "gone");
                       }
                       return accept(arrivals);
                     },
                     environment()};
  send("bad");
  nats.next();  // it waits with the server, and comes before the first, for which ack_wait must
                // pass
  send("first", "order.placed", keyed);
  ASSERT_TRUE(eventually([&] { return cut.load(); }));
  send("second", "order.placed", keyed);
  ASSERT_TRUE(eventually([&] { return inbox().state(key("second")).has_value(); }));
  source.stop();
  const auto place = [&](const char* id) { return std::ranges::find(order, id) - order.begin(); };
  EXPECT_LT(place("first"), place("second"));
}

TEST_P(NatsNak, the_last_delivery_that_max_deliver_allows_is_repeated_here) {
  make_stream();
  send("bad");
  NatsSourceOptions options = patient();
  options.retry.max_retries = 5;
  options.max_deliver = 2;
  RunningNats source = run_unless([&] { return failures() < 4; }, options);
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(failures(), 4u);
  EXPECT_EQ(deliveries(), 2u);
}

TEST_P(NatsNak, the_last_delivery_of_a_consumer_that_has_a_limit_is_repeated_here) {
  make_stream();
  nats.consumer(stream, "box", [](jsConsumerConfig& config) { config.MaxDeliver = 1; });
  send("bad");
  RunningNats source = run_unless([&] { return failures() < 2; }, source_options());
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(failures(), 2u);
  EXPECT_TRUE(acknowledged());
}

TWINBOX_ON_EVERY_BACKEND(NatsNak);

}  // namespace
}  // namespace twinbox::test
