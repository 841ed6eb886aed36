// A user of NATS who lacks a right: a server says so, and answers nothing.
#include "nats_test.hpp"

namespace twinbox::test {
namespace {

using Kind = Outcome::Kind;

class NatsPermission : public NatsTest {
 protected:
  static NatsConnection limited() { return {.url = Nats::setting("TWINBOX_TEST_NATS_LIMITED")}; }
};

TEST_P(NatsPermission, that_is_missing_for_a_subject_is_a_failed_attempt_that_says_so_at_once) {
  make_stream();
  for (const char* topic : {"order.placed", "forbidden.thing"}) {
    outbox().enqueue({.topic = Topic{topic}, .payload = payload(), .id = MessageId{topic}});
  }
  // Whoever waits for an answer waits for the whole of this, and then knows nothing.
  NatsPublisher publisher{
      limited(),
      {.stream = {.name = stream}, .subject_prefix = stream + ".", .timeout = 30s},
      environment()};
  const auto claimed = outbox().claim(worker_a, 30s, 10);
  const auto outcomes = publisher.publish(claimed);
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    if (claimed[i].topic.view() == "order.placed") {
      EXPECT_EQ(outcomes[i].kind(), Kind::done);
      continue;
    }
    EXPECT_EQ(outcomes[i].kind(), Kind::retry);
    for (const std::string& part : {std::string{"Permissions Violation"}, stream + ".forbidden"}) {
      EXPECT_TRUE(has(outcomes[i].reason(), part)) << outcomes[i].reason();
    }
  }
  EXPECT_TRUE(log().events("broker_lost").empty()) << "the connection is as good as before";
}

TEST_P(NatsPermission, that_is_missing_for_deliveries_stands_in_the_status_and_the_log) {
  make_all();
  send("a");
  NatsSourceOptions options = source_options();
  options.topology = Topology::check;
  RunningNats source{limited(), options, accept_into(inbox()), environment()};
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "Permissions Violation"); }))
      << source.status().error;
  const auto told = log().events("broker_error");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(has(told[0].field("error"), "MSG.NEXT")) << told[0].field("error");
  source.stop();
  EXPECT_EQ(left(), 1u);
}

TWINBOX_ON_BACKENDS(NatsPermission, Backend::sqlite_memory);

}  // namespace
}  // namespace twinbox::test
