// A claimed message for tests of sinks, without a store.
#pragma once

#include <string>

#include <twinbox/message.hpp>

namespace twinbox::test {

inline Message claimed(std::string topic = "order.placed", std::string payload = "~payload~content",
                       std::string id = "evt_1") {
  using namespace std::chrono_literals;
  constexpr Instant now = std::chrono::sys_days{std::chrono::January / 15 / 2030};
  return {.delivery_id = DeliveryId{1},
          .epoch = 1,
          .handler = HandlerKey::by_topic(),
          .attempts = 0,
          .expiries = 0,
          .requeues = 0,
          .visible_at = now,
          .lease_until = now + 30s,
          .last_error = {},
          .source = Source{"shop"},
          .id = MessageId{std::move(id)},
          .topic = Topic{std::move(topic)},
          .payload = std::move(payload),
          .content_type = {},
          .headers = {},
          .correlation_id = {},
          .partition_key = {},
          .hash = {},
          .due_at = {},
          .expires_at = {},
          .created_at = now,
          .last_seen_at = now,
          .seen_count = 1,
          .content_version = 1};
}

}  // namespace twinbox::test
