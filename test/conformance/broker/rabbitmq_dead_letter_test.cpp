// What RabbitMQ delivers and no inbox can take.
#include "rabbit_test.hpp"

namespace twinbox::test {
namespace {

class RabbitDeadLetter : public RabbitTest {};

TEST_P(RabbitDeadLetter, PHD_30_an_accept_that_keeps_failing_is_repeated_and_then_a_dead_letter) {
  refuse_poison("insert");
  source_options();
  send("bad", "poison");
  send("good");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  ASSERT_TRUE(eventually([&] { return source->status().dead == 1; }));
  source->stop();
  EXPECT_EQ(source->status().retried, 2u);
  EXPECT_EQ(source->status().dead, 1u);
  EXPECT_EQ(source->status().accepted, 1u);
  EXPECT_EQ(log().events("accept_failed").size(), 3u);
  EXPECT_EQ(rabbit.count(queue), 0u);
  const RabbitMessage dead = rabbit.get(queue + ".dead").value();
  EXPECT_EQ(dead.message_id, "bad");
  EXPECT_EQ(dead.body, payload("bad"));
  EXPECT_EQ(dead.type, "poison");
  EXPECT_TRUE(has(dead.headers.at("twinbox-error"), "refused")) << dead.headers.at("twinbox-error");
  EXPECT_EQ(dead.headers.at("twinbox-queue"), queue);
  EXPECT_EQ(dead.delivery_mode, 2);
}

TEST_P(RabbitDeadLetter, PHD_30_a_compressed_body_is_one_at_once_and_keeps_its_encoding) {
  source_options();
  rabbit.publish("", queue, {.body = "\x1f\x8b", .content_encoding = "gzip", .message_id = "a"});
  rabbit.publish("", queue, {.body = "text", .content_encoding = "utf-8", .message_id = "b"});
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  ASSERT_TRUE(eventually([&] { return source->status().dead == 1; }));
  source->stop();
  EXPECT_EQ(source->status().retried, 0u);
  EXPECT_EQ(rabbit.count(queue), 0u);
  const RabbitMessage dead = rabbit.get(queue + ".dead").value();
  EXPECT_EQ(dead.message_id, "a");
  EXPECT_EQ(dead.body, "\x1f\x8b");
  EXPECT_EQ(dead.content_encoding, "gzip");
  EXPECT_TRUE(has(dead.headers.at("twinbox-error"), "content encoding 'gzip'"))
      << dead.headers.at("twinbox-error");
  EXPECT_EQ(detail(key("b")).payload, "text");
}

TEST_P(RabbitDeadLetter, PHD_30_dead_letters_go_to_the_exchange_that_was_named_for_them) {
  refuse_poison("insert");
  RabbitSourceOptions options = source_options();
  options.dead_letter_exchange = own_name("dlx");
  rabbit.exchange(options.dead_letter_exchange, "direct");
  const std::string dead_letter_queue = rabbit.queue(own_name("dead_letter_queue"));
  rabbit.bind(dead_letter_queue, options.dead_letter_exchange, queue);
  send("bad", "poison");
  RunningRabbit source = run(options);
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_EQ(rabbit.get(dead_letter_queue).value().message_id, "bad");
  EXPECT_EQ(rabbit.count(queue), 0u);
}

TEST_P(RabbitDeadLetter, PHD_30_a_dead_letter_that_nobody_takes_stays_in_the_queue) {
  refuse_poison("insert");
  RabbitSourceOptions options = source_options();
  options.dead_letter_exchange = own_name("dlx");
  rabbit.exchange(options.dead_letter_exchange, "direct");
  send("bad", "poison");
  {
    RunningRabbit source = run(options);
    ASSERT_TRUE(eventually([&] { return !log().events("dead_letter_failed").empty(); }));
    send("good");
    ASSERT_TRUE(source.wait_for(1));
    EXPECT_EQ(source.status().dead, 0u);
  }
  EXPECT_TRUE(eventually([&] { return rabbit.count(queue) == 1; }));
}

TEST_P(RabbitDeadLetter, PHD_30_what_has_no_id_is_a_dead_letter_at_once_and_the_others_go_on) {
  source_options();
  rabbit.publish("", queue, {.body = payload("anonymous"), .type = "order.placed"});
  send("a");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  ASSERT_TRUE(eventually([&] { return source->status().dead == 1; }));
  source->stop();
  EXPECT_TRUE(has(rabbit.get(queue + ".dead").value().headers.at("twinbox-error"), "no id"));
  EXPECT_EQ(rabbit.count(queue), 0u);
}

TEST_P(RabbitDeadLetter, PHD_30_a_dead_letter_whose_headers_fill_a_frame_goes_as_it_came) {
  source_options();
  const std::map<std::string, std::string> headers = {{"large", std::string(130'900, 'x')}};
  rabbit.publish("", queue, {.body = payload("anonymous"), .headers = headers});
  send("a");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  ASSERT_TRUE(eventually([&] { return source->status().dead == 1; })) << source->status().error;
  source->stop();
  EXPECT_EQ(rabbit.get(queue + ".dead").value().headers.at("large"), headers.at("large"));
  EXPECT_EQ(rabbit.count(queue), 0u);
}

TEST_P(RabbitDeadLetter, PHD_30_a_place_that_has_gone_holds_up_nothing_else_and_is_found_again) {
  RabbitSourceOptions options = source_options();
  options.prefetch = 5;
  options.dead_letter_exchange = own_name("dlx");
  rabbit.exchange(options.dead_letter_exchange, "fanout");
  RunningRabbit source = run(options);
  ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
  // The broker closes the channel of whoever publishes to an exchange that is not there.
  rabbit.remove_exchange(options.dead_letter_exchange);
  rabbit.publish("", queue, {.body = payload("anonymous")});
  rabbit.publish("", queue, {.body = payload("nameless")});
  ASSERT_TRUE(eventually([&] { return !log().events("dead_letter_failed").empty(); }));
  for (int i = 0; i < 20; ++i) send(std::to_string(i));
  ASSERT_TRUE(source.wait_for(20));
  EXPECT_TRUE(log().events("broker_lost").empty());
  rabbit.exchange(options.dead_letter_exchange, "fanout");
  rabbit.bind(queue + ".dead", options.dead_letter_exchange, "");
  ASSERT_TRUE(eventually([&] { return source.status().dead == 2; }));
  source.stop();
  EXPECT_EQ(rabbit.count(queue), 0u);
  EXPECT_EQ(rabbit.count(queue + ".dead"), 2u);
}

TWINBOX_ON_EVERY_BACKEND(RabbitDeadLetter);

}  // namespace
}  // namespace twinbox::test
