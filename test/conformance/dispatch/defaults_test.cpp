// Every default that the source documents name, where the public API knows it.
#include "support/outbox_test.hpp"
#include <twinbox/channel.hpp>
#include <twinbox/dispatcher.hpp>
#include <twinbox/outbox.hpp>

namespace twinbox::test {
namespace {

class Defaults : public OutboxTest {};

TEST_P(Defaults, the_schema_is_infra_and_deployment_is_off) {
  REQUIREMENT("OBX-092");
  const BoxOptions defaults;
  EXPECT_EQ(defaults.schema, "infra");
  EXPECT_FALSE(defaults.deploy_schema);
}

TEST_P(Defaults, the_tables_are_called_outbox_and_inbox) {
  EXPECT_EQ(BoxOptions{}.table, "");
  EXPECT_EQ(outbox().options().table, "outbox");
  EXPECT_EQ(inbox().options().table, "inbox");
}

TEST_P(Defaults, a_lease_is_30_seconds_and_a_batch_50_messages) {
  EXPECT_EQ(default_lease, Duration{30s});
  EXPECT_EQ(default_batch, 50);
  outbox().enqueue(std::vector<NewMessage>(60, a_message()));
  const auto messages = outbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 50u);
  EXPECT_EQ(messages[0].lease_until, clock().now() + 30s);
  const auto stored = OutboxStore(outbox(), worker_a).claim_due(1);
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].lease_until, clock().now() + 30s);
}

TEST_P(Defaults, a_dispatcher_looks_every_half_second_with_the_usual_lease_and_batch) {
  const DispatcherOptions defaults;
  EXPECT_EQ(defaults.poll_interval, Duration{500ms});
  EXPECT_EQ(defaults.lease, Duration{30s});
  EXPECT_EQ(defaults.batch, 50);
}

TEST_P(Defaults, the_gate_is_on_and_keeps_its_mark_when_a_handler_fails) {
  EXPECT_TRUE(BoxOptions{}.gate);
  EXPECT_FALSE(HandlerOptions{}.release_claim_on_error);
}

TEST_P(Defaults, a_channel_may_be_without_an_inbox) {
  EXPECT_EQ(ChannelPolicy{}.without_inbox, WithoutInbox::none);
}

TEST_P(Defaults, a_failed_message_is_tried_ten_times_after_2_4_8_to_60_seconds) {
  const RetryPolicy retry = BoxOptions{}.retry;
  EXPECT_EQ(retry.max_attempts, 10);
  EXPECT_FALSE(retry.exhausted(9));
  EXPECT_TRUE(retry.exhausted(10));
  EXPECT_EQ(retry.jitter, Jitter::none);
  const std::vector<std::chrono::milliseconds> expected{2s,  4s,  8s,  16s, 32s,
                                                        60s, 60s, 60s, 60s, 60s};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(retry.delay(static_cast<int>(i) + 1, environment()), expected[i]) << i + 1;
  }
}

TEST_P(Defaults, the_presets_of_the_other_documents_are_5_attempts_to_5_minutes_and_to_1_hour) {
  const RetryPolicy per_handler = RetryPolicy::per_handler();
  EXPECT_EQ(per_handler.max_attempts, 5);
  EXPECT_EQ(per_handler.first_delay, 2s);
  EXPECT_EQ(per_handler.max_delay, 5min);
  EXPECT_EQ(per_handler.jitter, Jitter::equal);
  const RetryPolicy event_bus = RetryPolicy::event_bus();
  EXPECT_EQ(event_bus.max_attempts, 5);
  EXPECT_EQ(event_bus.first_delay, 1min);
  EXPECT_EQ(event_bus.max_delay, 1h);
  EXPECT_EQ(event_bus.jitter, Jitter::none);
}

TEST_P(Defaults, five_workers_may_die_holding_a_message) {
  EXPECT_EQ(BoxOptions{}.max_expiries, 5);
}

TEST_P(Defaults, an_outbox_keeps_what_is_finished_for_7_days) {
  ASSERT_EQ(outbox().ack(worker_a, enqueue_and_claim(worker_a)), 1u);
  clock().advance(24h * 7 - 1us);
  EXPECT_EQ(outbox().prune(), 0u);
  clock().advance(1us);
  EXPECT_EQ(outbox().prune(), 1u);
}

TEST_P(Defaults, an_inbox_keeps_what_is_finished_for_30_days) {
  inbox().accept(an_arrival());
  ASSERT_EQ(inbox().ack(worker_a, inbox().claim(worker_a)), 1u);
  clock().advance(24h * 30 - 1us);
  EXPECT_EQ(inbox().prune(), 0u);
  clock().advance(1us);
  EXPECT_EQ(inbox().prune(), 1u);
}

TEST_P(Defaults, a_box_may_keep_what_is_finished_for_another_time) {
  BoxOptions short_lived = options();
  short_lived.retention = Duration{1h};
  Outbox outbox(database(), short_lived);
  outbox.enqueue(a_message());
  ASSERT_EQ(outbox.ack(worker_a, outbox.claim(worker_a)), 1u);
  clock().advance(1h);
  EXPECT_EQ(outbox.prune(), 1u);
}

TEST_P(Defaults, pruning_leaves_dead_and_merely_seen_messages_alone) {
  const PruneOptions defaults{.older_than = 0s};
  EXPECT_FALSE(defaults.include_dead);
  EXPECT_FALSE(defaults.include_seen);
  EXPECT_EQ(defaults.batch, 1000);
}

TEST_P(Defaults, a_hash_is_sha256_and_the_source_of_an_outbox_message_a_dash) {
  EXPECT_EQ(ContentHash::of("x").algorithm, "sha256");
  EXPECT_EQ(ContentHash::of("x").bytes.size(), 32u);
  outbox().enqueue(a_message());
  EXPECT_EQ(outbox().claim(worker_a).at(0).source, Source{"-"});
}

TEST_P(Defaults, the_database_has_8_connections_and_bounds_every_wait) {
  const DatabaseOptions defaults;
  EXPECT_EQ(defaults.pool_size, 8u);
  EXPECT_EQ(defaults.wait_timeout, 10s);
  EXPECT_EQ(defaults.answer_timeout, 30s);
  EXPECT_EQ(defaults.retry_timeout, 5s);
  EXPECT_EQ(defaults.retries, 5);
}

TEST_P(Defaults, the_database_decides_the_time_and_the_log_is_silent) {
  const Environment defaults;
  EXPECT_EQ(defaults.now(), std::nullopt);
  EXPECT_FALSE(defaults.log);
  EXPECT_EQ(defaults.log_level, LogLevel::info);
}

TWINBOX_ON_EVERY_BACKEND(Defaults);

}  // namespace
}  // namespace twinbox::test
