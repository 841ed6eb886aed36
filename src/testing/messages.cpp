#include <algorithm>

#include "twinbox/operations.hpp"
#include "twinbox/testing.hpp"

namespace twinbox {
namespace {

template <class T>
std::optional<T> maybe(const auto& value) {
  return value ? std::optional<T>{*value} : std::nullopt;
}

NewMessage stored(const MessageDetail& detail) {
  const MessageView& message = detail.message;
  return {.topic = message.topic.value(),
          .payload = detail.payload,
          .id = message.id,
          .source = message.source,
          .extras = {.correlation_id = message.correlation_id,
                     .partition_key = message.partition_key,
                     .due_at = maybe<InstantArg>(message.due_at),
                     .expires_at = maybe<InstantArg>(message.expires_at),
                     .content_type = message.content_type,
                     .headers = detail.headers,
                     .hash = detail.hash}};
}

}  // namespace

Message make_message(const NewMessage& message, Instant now) {
  const MessageExtras& extras = message.extras;
  const auto due_at =
      extras.delay ? std::optional<Instant>{now + *extras.delay} : maybe<Instant>(extras.due_at);
  return {.delivery_id = DeliveryId{1},
          .epoch = 1,
          .handler = HandlerKey::by_topic(),
          .attempts = 0,
          .expiries = 0,
          .requeues = 0,
          .visible_at = due_at.value_or(now),
          .lease_until = now + default_lease,
          .last_error = {},
          .source = message.source.value_or(Source::none()),
          .id = message.id.value_or(MessageId{"test"}),
          .topic = message.topic,
          .payload = message.payload,
          .content_type = extras.content_type,
          .headers = extras.headers,
          .correlation_id = extras.correlation_id,
          .partition_key = extras.partition_key,
          .hash = extras.hash,
          .due_at = due_at,
          .expires_at = maybe<Instant>(extras.expires_at),
          .created_at = now,
          .last_seen_at = now,
          .seen_count = 1,
          .content_version = 1};
}

std::vector<NewMessage> enqueued(Outbox& outbox, const std::optional<Topic>& topic) {
  Admin admin{outbox};
  Filter filter;
  filter.topic = topic;
  std::vector<NewMessage> found;
  std::optional<DeliveryKey> next;
  do {
    const Page page = admin.list(filter, 500, next);
    for (const DeliveryEntry& entry : page.entries) {
      const auto detail = admin.get({entry.message.source, entry.message.id});
      if (detail && detail->message.has_content) found.push_back(stored(*detail));
    }
    next = page.next;
  } while (next);
  std::ranges::reverse(found);  // the newest came first
  return found;
}

}  // namespace twinbox
