// A message as a claim hands it out, without a store.
#pragma once

#include <string>
#include <utility>

#include <twinbox/message.hpp>

namespace twinbox::test {

inline Message claimed_message(std::string topic, HandlerKey key = HandlerKey::by_topic()) {
  return {.delivery_id = DeliveryId{1},
          .epoch = 1,
          .handler = std::move(key),
          .attempts = 0,
          .expiries = 0,
          .requeues = 0,
          .visible_at = {},
          .lease_until = {},
          .last_error = {},
          .source = Source::none(),
          .id = MessageId{"m"},
          .topic = Topic{std::move(topic)},
          .payload = {},
          .content_type = {},
          .headers = {},
          .correlation_id = {},
          .partition_key = {},
          .hash = {},
          .due_at = {},
          .expires_at = {},
          .created_at = {},
          .last_seen_at = {},
          .seen_count = 1,
          .content_version = 0};
}

}  // namespace twinbox::test
