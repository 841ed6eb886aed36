// What NATS JetStream delivers and an inbox cannot take: repeated, then a dead letter.
#include "nats_test.hpp"
#include <twinbox/error.hpp>

namespace twinbox::test {
namespace {

class NatsDeadLetter : public NatsTest {};

TEST_P(NatsDeadLetter, PHD_30_an_accept_that_keeps_failing_is_repeated_and_then_a_dead_letter) {
  refuse_poison("insert");
  make_all();
  send("bad", "poison", {{"color", "blue"}});
  send("good");
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_EQ(source.status().retried, 2u);
  EXPECT_EQ(source.status().accepted, 1u);
  EXPECT_EQ(log().events("accept_failed").size(), 3u);
  EXPECT_TRUE(acknowledged());
  const NatsMessage dead = dead_letters().at(0);
  EXPECT_EQ(dead.subject, "dead." + stream + ".box");
  EXPECT_EQ(dead.body, payload("bad"));
  EXPECT_EQ(dead.headers.at("twinbox-id"), "bad");
  EXPECT_EQ(dead.headers.at("color"), "blue");
  EXPECT_EQ(dead.headers.at("twinbox-subject"), stream + ".poison");
  EXPECT_EQ(dead.headers.at("twinbox-stream"), stream);
  EXPECT_TRUE(has(dead.headers.at("twinbox-error"), "refused")) << dead.headers.at("twinbox-error");
}

TEST_P(NatsDeadLetter, PHD_30_a_dead_letter_keeps_every_value_of_a_header) {
  make_all();
  nats.publish(stream + ".order",
               {.body = "", .headers = {{"color", "blue"}}, .more = {{"color", "red"}}});
  RunningNats source = run();
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  const NatsMessage dead = dead_letters().at(0);
  EXPECT_EQ(dead.headers.at("color"), "blue");
  EXPECT_EQ(dead.more, (std::vector<std::pair<std::string, std::string>>{{"color", "red"}}));
}

TEST_P(NatsDeadLetter, PHD_30_a_compressed_body_is_one_at_once) {
  make_all();
  send("a", "order", {{"Content-Encoding", "gzip"}});
  RunningNats source = run();
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_EQ(source.status().retried, 0u);
  const NatsMessage dead = dead_letters().at(0);
  EXPECT_EQ(dead.headers.at("Content-Encoding"), "gzip");
  EXPECT_TRUE(has(dead.headers.at("twinbox-error"), "content%20encoding"))
      << dead.headers.at("twinbox-error");
}

TEST_P(NatsDeadLetter, PHD_30_a_dead_letter_that_is_published_again_can_be_accepted) {
  refuse_poison("insert");
  make_all();
  send("bad", "poison");
  {
    RunningNats source = run();
    ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  }
  NatsMessage dead = dead_letters().at(0);
  dead.headers["twinbox-topic"] = "cured";
  nats.publish(dead.headers.at("twinbox-subject"), dead);
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(detail(key("bad")).message.topic.value().str(), "cured");
}

TEST_P(NatsDeadLetter, PHD_30_an_event_without_headers_is_one_when_it_is_published_again) {
  make_all();
  const std::string event =
      R"({"specversion":"1.0","id":"e","source":"/shop","type":"order.placed"})";
  nats.publish(stream + ".order", {.body = event, .headers = {{"Nats-Msg-Id", "n"}}});
  {
    RunningNats source{connection(), source_options(),
                       [](std::span<const Arrival>) -> std::vector<Accepted> {
                         throw std::runtime_error("not yet");
                       }};
    ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  }
  const NatsMessage dead = dead_letters().at(0);
  nats.publish(dead.headers.at("twinbox-subject"), dead);
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(detail({Source{"/shop"}, MessageId{"e"}}).message.topic.value().str(), "order.placed");
}

TEST_P(NatsDeadLetter, PHD_30_a_dead_letter_that_no_stream_takes_stays_in_its_stream) {
  refuse_poison("insert");
  make_all();
  send("bad", "poison");
  {
    RunningNats source = run();
    ASSERT_TRUE(eventually([&] { return source.status().connected; }));
    nats.remove_stream(stream + "_dead");
    send("worse", "poison");
    ASSERT_TRUE(eventually([&] { return !log().events("dead_letter_failed").empty(); }));
    send("good");
    ASSERT_TRUE(source.wait_for(1));
  }
  EXPECT_GE(left(), 1u);
  RunningNats source = run();  // makes the place again
  ASSERT_TRUE(eventually([&] { return left() == 0; }));
  EXPECT_GE(dead_letters().size(), 1u);
}

TEST_P(NatsDeadLetter, PHD_30_dead_letters_that_would_come_back_are_refused) {
  NatsSourceOptions options = source_options();
  options.dead_letter_subject = stream + ".dead";
  RunningNats source = run(options);
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "dead_letter_subject"); }))
      << source.status().error;
}

TEST_P(NatsDeadLetter, PHD_30_a_store_that_is_away_is_waited_for_without_giving_anything_up) {
  make_all();
  send("a");
  RunningNats source{connection(), source_options(), unavailable_at_first(accept_into(inbox()))};
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(source.status().dead, 0u);
  EXPECT_EQ(source.status().retried, 0u);
  EXPECT_EQ(source.status().accepted, 1u);
  EXPECT_TRUE(dead_letters().empty());
}

TEST_P(NatsDeadLetter, PHD_30_what_has_no_id_is_a_dead_letter_at_once_and_the_others_go_on) {
  make_all();
  nats.publish(stream + ".order", {.body = payload("anonymous")});
  send("a");
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_TRUE(has(dead_letters().at(0).headers.at("twinbox-error"), "no%20id"));
  EXPECT_TRUE(acknowledged());
}

TEST_P(NatsDeadLetter, PHD_30_a_dead_letter_that_is_as_large_as_can_be_goes_as_it_came) {
  make_all();
  const std::string body(1024 * 1024, 'x');  // the server takes no byte more, whatever it is for
  nats.publish(stream + ".order", {.body = body});
  RunningNats source = run();
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; })) << source.status().error;
  source.stop();
  EXPECT_EQ(dead_letters().at(0).body, body);
  EXPECT_TRUE(acknowledged());
}

/// Their stream must not take the one for a repetition of the other.
TEST_P(NatsDeadLetter, PHD_30_each_consumer_has_its_own_dead_letter_however_large_it_is) {
  make_all();
  const std::string id = "large";
  // As large as can be, with what the server counts besides: its headers.
  const std::string head =
      "NATS/1.0\r\nContent-Type: application/cloudevents+json\r\nNats-Msg-Id: " + id + "\r\n\r\n";
  const NatsMessage damaged{
      .body = std::string(1024 * 1024 - head.size(), 'x'),
      .headers = {{"Nats-Msg-Id", id}, {"Content-Type", "application/cloudevents+json"}}};
  nats.publish(stream + ".order", damaged);
  NatsSourceOptions other = source_options();
  other.consumer = "other";
  for (const NatsSourceOptions& options : {source_options(), other}) {
    RunningNats source = run(options);
    ASSERT_TRUE(eventually([&] { return source.status().dead == 1; })) << source.status().error;
  }
  const auto dead = dead_letters();
  ASSERT_EQ(dead.size(), 2u);
  EXPECT_EQ(dead[0].subject, "dead." + stream + ".box");
  EXPECT_EQ(dead[1].subject, "dead." + stream + ".other");
  for (const NatsMessage& one : dead) {
    EXPECT_EQ(one.body, damaged.body);
    EXPECT_EQ(one.headers.at("twinbox-id"), id);
    EXPECT_FALSE(one.headers.contains("twinbox-error")) << "there is no room for it";
  }
}

TEST_P(NatsDeadLetter, PHD_30_one_that_the_server_takes_no_more_holds_up_nothing_else) {
  make_all();
  nats.publish(stream + ".order", {.body = std::string(5000, 'x')});
  Relay relay{port_of(Nats::url())};
  relay.rewrite(R"("max_payload":1048576)", R"("max_payload":   4000)");
  RunningNats source{connection(relay), source_options(), accept_into(inbox()), environment()};
  ASSERT_TRUE(eventually([&] { return !log().events("dead_letter_failed").empty(); }))
      << source.status().error;
  send("a");
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_TRUE(has(log().events("dead_letter_failed")[0].field("reason"), "max_payload"));
  EXPECT_EQ(relay.connections(), 1);
  EXPECT_EQ(left(), 1u);
}

TEST_P(NatsDeadLetter, PHD_30_what_comes_too_often_without_being_accepted_is_a_dead_letter) {
  make_all();
  send("a");
  NatsSourceOptions options = source_options();
  options.max_deliver = 2;
  for (int life = 1; life <= 2; ++life) {  // each ends before it could accept, and gives it back
    std::atomic<bool> called = false;
    RunningNats source{connection(), options, away(called)};
    ASSERT_TRUE(eventually([&] { return called.load(); }));
  }
  RunningNats source = run(options);
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_TRUE(has(dead_letters().at(0).headers.at("twinbox-error"), "max_deliver"));
  EXPECT_TRUE(acknowledged());
}

TWINBOX_ON_EVERY_BACKEND(NatsDeadLetter);

}  // namespace
}  // namespace twinbox::test
