// Events over NATS and back, byte by byte; and headers as other clients write them.
#include "nats_test.hpp"
#include "random_event.hpp"

namespace twinbox::test {
namespace {

class NatsRoundTrip : public NatsTest {
 protected:
  void travel(BodyFormat form) {
    make_all();
    const auto sent = RandomEvents{20261118}.make(400);
    NatsPublisher publisher{connection(), {.subject = stream + ".events", .form = form}};
    for (const Outcome& outcome : publisher.publish(claimed(outbox(), sent))) {
      ASSERT_EQ(outcome.kind(), Outcome::Kind::done) << outcome.reason();
    }
    RunningNats source = run();
    ASSERT_TRUE(source.wait_for(sent.size()));
    source.stop();
    expect_all(Admin{inbox()}, sent, form);
    EXPECT_TRUE(dead_letters().empty());
  }
};

TEST_P(NatsRoundTrip, random_events_arrive_whole_in_binary_mode) { travel(BodyFormat::binary); }

TEST_P(NatsRoundTrip, random_events_arrive_whole_in_structured_mode) {
  travel(BodyFormat::structured);
}

TEST_P(NatsRoundTrip, headers_of_other_clients_are_read_as_they_stand) {
  make_all();
  // No blank behind the colon, empty values, names that begin alike, one of them last and empty.
  nats.publish_raw(stream + ".x",
                   "NATS/1.0\r\nce-empty:\r\nce-abc:long\r\nce-a:short\r\nce-specversion:1.0\r\n"
                   "ce-id: e-1\r\nce-source:/shop\r\nce-type: order.placed \r\n"
                   "Content-Type: application/json\r\nce-last:\r\n\r\n",
                   "{}");
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  const CloudEvent event = event_from_json(detail({Source{"/shop"}, MessageId{"e-1"}}).payload);
  EXPECT_EQ(event.type, "order.placed");
  EXPECT_EQ(event.extension("empty"), "");
  EXPECT_EQ(event.extension("abc"), "long");
  EXPECT_EQ(event.extension("a"), "short");
  EXPECT_EQ(event.extension("last"), "");
  EXPECT_EQ(event.data, "{}");
}

TEST_P(NatsRoundTrip, a_dead_letter_has_every_header_with_all_of_its_values) {
  make_all();
  nats.publish_raw(stream + ".x",
                   "NATS/1.0\r\nx-abc: 1\r\nx-a: 2\r\nx-abc: 3\r\nx-empty:\r\nx-a: 4\r\n\r\n",
                   "no id");
  RunningNats source = run();
  ASSERT_TRUE(eventually([&] { return !dead_letters().empty(); }));
  source.stop();
  const std::string raw = nats.raw_headers(stream + "_dead", 1);
  for (const char* line : {"x-abc: 1", "x-abc: 3", "x-a: 2", "x-a: 4", "x-empty: "}) {
    EXPECT_TRUE(has(raw, std::string{"\r\n"} + line + "\r\n")) << line << " in " << raw;
  }
}

TEST_P(NatsRoundTrip, a_delivery_whose_headers_are_no_headers_is_a_dead_letter) {
  make_all();
  nats.publish_raw(stream + ".x", "NATS/1.0\r\nno colon here\r\nNats-Msg-Id: a\r\n\r\n", "body");
  RunningNats source = run();
  ASSERT_TRUE(eventually([&] { return !dead_letters().empty(); }));
  source.stop();
  EXPECT_EQ(dead_letters().at(0).body, "body");
  EXPECT_TRUE(has(dead_letters().at(0).headers.at("twinbox-error"), "colon"));
  EXPECT_EQ(count_messages(), "0");
}

TWINBOX_ON_EVERY_BACKEND(NatsRoundTrip);

}  // namespace
}  // namespace twinbox::test
