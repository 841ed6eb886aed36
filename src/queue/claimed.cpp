#include "queue/claimed.hpp"

#include <string>

#include "queue/read.hpp"

namespace twinbox {
namespace {

int number(const Row& row, int column) { return static_cast<int>(row.integer(column)); }

}  // namespace

Message read_claimed(const Row& row) {
  return Message{
      .work_id = WorkId{row.integer(0)},
      .epoch = number(row, 1),
      .handler = HandlerKey{std::string{row.text(2)}, Trusted{}},
      .attempts = number(row, 3),
      .expiries = number(row, 4),
      .requeues = number(row, 5),
      .visible_at = row.instant(6),
      .lease_until = row.instant(7),
      .last_error = row.is_null(8) ? std::string{} : std::string{row.text(8)},
      .source = Source{std::string{row.text(9)}, Trusted{}},
      .id = MessageId{std::string{row.text(10)}, Trusted{}},
      .topic = Topic{std::string{row.text(11)}, Trusted{}},
      .payload = std::string{row.bytes(12)},
      .content_type = maybe_text(row, 13),
      .headers = maybe_text(row, 14),
      .correlation_id = maybe_named<CorrelationId>(row, 15),
      .partition_key = maybe_named<PartitionKey>(row, 16),
      .hash = maybe_hash(row, 17, 18),
      .due_at = maybe_instant(row, 19),
      .expires_at = maybe_instant(row, 20),
      .created_at = row.instant(21),
      .last_seen_at = row.instant(22),
      .seen_count = number(row, 23),
      .content_version = number(row, 24),
  };
}

bool crash_looped(const Message& message, int max_expiries) noexcept {
  return max_expiries > 0 && message.expiries >= max_expiries;
}

std::string crash_text(const Message& message) {
  return "the worker that held it died " + std::to_string(message.expiries) + " times";
}

}  // namespace twinbox
