#include "daemon/http/json.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <openssl/evp.h>

#include <twinbox/event.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

template <class Text>
json::value text_or_null(const std::optional<Text>& text) {
  if (!text) return nullptr;
  if constexpr (requires { text->str(); }) {
    return view(text->str());
  } else {
    return view(*text);
  }
}

json::value or_null(const std::optional<Instant>& instant) {
  if (!instant) return nullptr;
  return to_json(*instant);
}

json::value uuid_or_null(const std::optional<Uuid>& uuid) {
  if (!uuid) return nullptr;
  return view(uuid->str());
}

/// Ids are strings: JavaScript reads larger numbers inexactly.
json::value id_or_null(const std::optional<DeliveryId>& id) {
  if (!id) return nullptr;
  return view(std::to_string(id->number()));
}

json::value hash_or_null(const std::optional<ContentHash>& hash) {
  if (!hash) return nullptr;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (const char byte : hash->bytes) {
    hex += digits[static_cast<unsigned char>(byte) >> 4U];
    hex += digits[static_cast<unsigned char>(byte) & 0xFU];
  }
  return json::object{{"algorithm", view(hash->algorithm)}, {"hex", view(hex)}};
}

json::object message_json(const MessageView& message) {
  return {{"number", message.number},
          {"id", view(message.id.str())},
          {"source", view(message.source.str())},
          {"topic", text_or_null(message.topic)},
          {"correlation_id", text_or_null(message.correlation_id)},
          {"partition_key", text_or_null(message.partition_key)},
          {"content_type", text_or_null(message.content_type)},
          {"created_at", to_json(message.created_at)},
          {"last_seen_at", to_json(message.last_seen_at)},
          {"due_at", or_null(message.due_at)},
          {"expires_at", or_null(message.expires_at)},
          {"seen_count", message.seen_count},
          {"content_version", message.content_version},
          {"size", message.size}};
}

json::object delivery_json(const DeliveryView& delivery) {
  return {{"number", delivery.key.number},
          {"handler", view(delivery.key.handler.str())},
          {"delivery_id", id_or_null(delivery.delivery_id)},
          {"state", view(to_string(delivery.state))},
          {"attempts", delivery.attempts},
          {"expiries", delivery.expiries},
          {"requeues", delivery.requeues},
          {"visible_at", or_null(delivery.visible_at)},
          {"lease_until", or_null(delivery.lease_until)},
          {"owner", uuid_or_null(delivery.owner)},
          {"finished_at", or_null(delivery.finished_at)},
          {"reason", view(delivery.reason)},
          {"last_error", view(delivery.last_error)}};
}

void append(std::string& out, double number) {
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), written.ptr);
}

void append(std::string& out, const json::value& value) {
  if (const json::object* object = value.if_object()) {
    char before = '{';
    for (const auto& [name, member] : *object) {
      out += std::exchange(before, ',');
      out += json::serialize(name);
      out += ':';
      append(out, member);
    }
    out += object->empty() ? "{}" : "}";
  } else if (const json::array* array = value.if_array()) {
    char before = '[';
    for (const json::value& element : *array) {
      out += std::exchange(before, ',');
      append(out, element);
    }
    out += array->empty() ? "[]" : "]";
  } else if (value.is_double() && std::isfinite(value.get_double())) {
    append(out, value.get_double());
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xc2 && lead < 0xe0 ? 2
                               : lead >= 0xe0 && lead < 0xf0 ? 3
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                                                             : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xc0) != 0x80) return false;
    }
    const auto second = static_cast<unsigned char>(length > 1 ? text[i + 1] : 0);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += length;
  }
  return true;
}

std::optional<Duration> open_for(const MessageDetail& detail, Instant now) {
  const auto is_open = [](const DeliveryView& delivery) {
    return delivery.state == DeliveryState::ready || delivery.state == DeliveryState::scheduled ||
           delivery.state == DeliveryState::leased || delivery.state == DeliveryState::waiting;
  };
  if (std::none_of(detail.deliveries.begin(), detail.deliveries.end(), is_open))
    return std::nullopt;
  return now - detail.message.created_at;
}

json::value to_json(Instant instant) { return view(Timestamp{instant}.str()); }

json::object to_json(const StateCounts& counts) {
  json::object out{{"ready", counts.ready},
                   {"scheduled", counts.scheduled},
                   {"leased", counts.leased},
                   {"waiting", counts.waiting},
                   {"dead", counts.dead}};
  out["oldest_pending_seconds"] = nullptr;
  if (counts.oldest_pending) {
    out["oldest_pending_seconds"] = static_cast<double>(counts.oldest_pending->count()) / 1e6;
  }
  out["oldest_open_seconds"] = nullptr;
  if (counts.oldest_open) {
    out["oldest_open_seconds"] = static_cast<double>(counts.oldest_open->count()) / 1e6;
  }
  return out;
}

json::object to_json(const DeliveryEntry& entry) {
  json::object out = message_json(entry.message);
  out["delivery"] = delivery_json(entry.delivery);
  return out;
}

json::object to_json(const MessageDetail& detail) {
  json::object out = message_json(detail.message);
  out["headers"] = text_or_null(detail.headers);
  out["hash"] = hash_or_null(detail.hash);
  json::array deliveries;
  for (const DeliveryView& delivery : detail.deliveries)
    deliveries.push_back(delivery_json(delivery));
  out["deliveries"] = std::move(deliveries);
  json::array timeline;
  for (const FailedAttempt& failure : detail.timeline) {
    timeline.push_back(json::object{{"failed_at", to_json(failure.failed_at)},
                                    {"handler", view(failure.handler.str())},
                                    {"attempt", failure.attempt},
                                    {"worker", uuid_or_null(failure.worker)},
                                    {"error", view(failure.error)}});
  }
  out["timeline"] = std::move(timeline);
  json::array held;
  for (const HeldKey& one : detail.held_keys) {
    held.push_back(json::object{{"handler", view(one.delivery.handler.str())},
                                {"partition_key", view(one.key.str())},
                                {"requeued", one.requeued},
                                {"waiting", one.waiting}});
  }
  out["held_keys"] = std::move(held);
  json::array blocked;
  for (const BlockedKey& one : detail.blocked_keys) {
    blocked.push_back(json::object{{"handler", view(one.delivery.handler.str())},
                                   {"partition_key", view(one.key.str())},
                                   {"due_at", to_json(one.due_at)},
                                   {"waiting", one.waiting}});
  }
  out["blocked_keys"] = std::move(blocked);
  out["more_attempts"] = detail.more_attempts;
  return out;
}

json::object to_json(const DeadGroup& group) {
  return {{"topic", view(group.topic)},          {"handler", view(group.handler.str())},
          {"error", view(group.error)},          {"count", group.count},
          {"first_at", to_json(group.first_at)}, {"last_at", to_json(group.last_at)}};
}

json::object to_json(const AuditEntry& entry) {
  json::object out{{"id", entry.id},
                   {"action", view(entry.action)},
                   {"actor", view(entry.actor)},
                   {"reason", view(entry.reason)},
                   {"operation_id", nullptr},
                   {"number", nullptr},
                   {"affected", entry.affected},
                   {"started_at", to_json(entry.started_at)},
                   {"at", to_json(entry.at)},
                   {"finished", entry.finished}};
  if (!entry.operation_id.empty()) out["operation_id"] = view(entry.operation_id);
  if (entry.number) out["number"] = *entry.number;
  return out;
}

void add_payload(json::object& out, std::string_view payload, std::size_t limit) {
  const bool text = is_utf8(payload);
  std::size_t end = std::min(limit, payload.size());
  // Not in the middle of a character.
  while (text && end < payload.size() && end > 0 &&
         (static_cast<unsigned char>(payload[end]) & 0xc0) == 0x80) {
    --end;
  }
  const std::string_view shown = payload.substr(0, end);
  out["payload"] = text ? json::string{view(shown)} : json::string{base64(shown)};
  out["payload_encoding"] = text ? "utf-8" : "base64";
  out["payload_truncated"] = end < payload.size();
}

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
  const std::size_t content = std::min(text.find('='), text.size());
  if (text.size() % 4 != 0 || text.size() - content > 2 ||
      text.find_first_not_of('=', content) != std::string_view::npos) {
    return {};
  }
  std::string out(text.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  if (length < 0) return {};
  out.resize(static_cast<std::size_t>(length) - (text.size() - content));
  return out;
}

std::string json_text(const json::value& value) {
  std::string out;
  append(out, value);
  return out;
}

HttpResponse answer(const json::value& value, int status) {
  HttpResponse response = json_response(status, json_text(value));
  response.headers.add("Cache-Control", "no-store");
  response.headers.add("X-Content-Type-Options", "nosniff");
  return response;
}

std::optional<Instant> parse_instant(std::string_view text) {
  const auto parsed = Timestamp::parse(text);
  if (!parsed) return {};
  return parsed->instant();
}

}  // namespace twinbox::app
