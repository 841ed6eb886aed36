#include "cli/json.hpp"

#include <array>
#include <boost/json/parse.hpp>
#include <cstdio>

#include "cli/text.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

template <class T>
json::value text_or_null(const std::optional<T>& value) {
  if (!value) return nullptr;
  return json::value(value->view());
}

json::value or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return json::value(text);
}

json::value or_null(const std::optional<Uuid>& uuid) {
  if (!uuid) return nullptr;
  return json::value(uuid->str());
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    text += digits.data();
  }
  return text;
}

bool is_json(std::string_view text) {
  json::error_code error;
  json::parse(text, error, {}, {.max_depth = 200});
  return !error;
}

/// Indents the tokens without interpreting them: numbers and repeated keys stay unchanged.
class Indenter {
 public:
  std::string lay_out(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '"') {
        const std::size_t end = end_of_string(text, at);
        put(text.substr(at, end - at));
        at = end - 1;
      } else if (c == '{' || c == '[') {
        put(text.substr(at, 1));
        ++depth_;
        fresh_ = true;
      } else if (c == '}' || c == ']') {
        --depth_;
        if (!fresh_) new_line();
        fresh_ = false;
        result_ += c;
      } else if (c == ',') {
        result_ += c;
        new_line();
      } else if (c == ':') {
        result_ += ": ";
      } else if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
        put(text.substr(at, 1));
      }
    }
    return std::move(result_);
  }

 private:
  static std::size_t end_of_string(std::string_view text, std::size_t at) {
    for (++at; text[at] != '"'; ++at) {
      if (text[at] == '\\') ++at;
    }
    return at + 1;
  }
  void put(std::string_view token) {
    if (fresh_) new_line();
    fresh_ = false;
    result_ += token;
  }
  void new_line() { result_ += "\n" + std::string(static_cast<std::size_t>(2 * depth_), ' '); }

  std::string result_;
  int depth_ = 0;
  bool fresh_ = false;  ///< right after an opening bracket
};

}  // namespace

json::value to_json(const std::optional<Instant>& instant) {
  if (!instant) return nullptr;
  return json::value(rfc3339(*instant));
}

json::value to_json(const std::optional<Duration>& duration) {
  if (!duration) return nullptr;
  return json::value(duration->count() / 1000);
}

json::object to_json(const StateCounts& counts, bool history) {
  json::object object{{"ready", counts.ready},
                      {"scheduled", counts.scheduled},
                      {"leased", counts.leased},
                      {"waiting", counts.waiting},
                      {"dead", counts.dead},
                      {"oldest_pending_ms", to_json(counts.oldest_pending)},
                      {"oldest_open_ms", to_json(counts.oldest_open)}};
  if (history) {
    object["done"] = counts.done;
    object["discarded"] = counts.discarded;
    object["marked"] = counts.marked;
    object["seen"] = counts.seen;
  }
  return object;
}

json::object to_json(const MessageView& message) {
  return {{"number", message.number},
          {"source", message.source.view()},
          {"id", message.id.view()},
          {"topic", text_or_null(message.topic)},
          {"correlation_id", text_or_null(message.correlation_id)},
          {"partition_key", text_or_null(message.partition_key)},
          {"content_type", or_null(message.content_type.value_or(""))},
          {"created_at", to_json(std::optional{message.created_at})},
          {"last_seen_at", to_json(std::optional{message.last_seen_at})},
          {"due_at", to_json(message.due_at)},
          {"expires_at", to_json(message.expires_at)},
          {"seen_count", message.seen_count},
          {"content_version", message.content_version},
          {"size", message.size}};
}

json::object to_json(const DeliveryView& delivery) {
  return {{"handler", delivery.key.handler.view()},
          {"state", to_string(delivery.state)},
          {"delivery_id", delivery.delivery_id ? json::value(delivery.delivery_id->number())
                                               : json::value(nullptr)},
          {"attempts", delivery.attempts},
          {"expiries", delivery.expiries},
          {"requeues", delivery.requeues},
          {"visible_at", to_json(delivery.visible_at)},
          {"lease_until", to_json(delivery.lease_until)},
          {"owner", or_null(delivery.owner)},
          {"finished_at", to_json(delivery.finished_at)},
          {"reason", or_null(delivery.reason)},
          {"last_error", or_null(delivery.last_error)}};
}

json::object to_json(const FailedAttempt& attempt) {
  return {{"failed_at", to_json(std::optional{attempt.failed_at})},
          {"handler", attempt.handler.view()},
          {"attempt", attempt.attempt},
          {"worker", or_null(attempt.worker)},
          {"error", attempt.error}};
}

json::object to_json(const MessageDetail& detail) {
  json::object object{{"message", to_json(detail.message)}};
  const bool text = is_text(detail.payload);
  object["payload"] = text ? json::value(detail.payload) : json::value(nullptr);
  if (!text) object["payload_base64"] = app::base64(detail.payload);
  object["headers"] = detail.headers ? json::parse(*detail.headers) : json::value(nullptr);
  object["hash"] = nullptr;
  if (detail.hash) {
    object["hash"] = {{"algorithm", detail.hash->algorithm},
                      {"hex", hexadecimal(detail.hash->bytes)}};
  }
  json::array deliveries;
  for (const DeliveryView& delivery : detail.deliveries) deliveries.push_back(to_json(delivery));
  object["deliveries"] = std::move(deliveries);
  json::array timeline;
  for (const FailedAttempt& attempt : detail.timeline) timeline.push_back(to_json(attempt));
  object["timeline"] = std::move(timeline);
  json::array held;
  for (const HeldKey& one : detail.held_keys) {
    held.push_back({{"handler", one.delivery.handler.view()},
                    {"partition_key", one.key.view()},
                    {"requeued", one.requeued},
                    {"waiting", one.waiting}});
  }
  object["held_keys"] = std::move(held);
  json::array blocked;
  for (const BlockedKey& one : detail.blocked_keys) {
    blocked.push_back({{"handler", one.delivery.handler.view()},
                       {"partition_key", one.key.view()},
                       {"due_at", to_json(std::optional{one.due_at})},
                       {"waiting", one.waiting}});
  }
  object["blocked_keys"] = std::move(blocked);
  object["more_attempts"] = detail.more_attempts;
  return object;
}

void print_json(const Screen& screen, const json::value& value) {
  screen.print(Indenter{}.lay_out(app::json_text(value)) + "\n");
}

std::string indented_json(std::string_view text) {
  return is_json(text) ? Indenter{}.lay_out(text) : std::string{};
}

bool is_text(std::string_view bytes) { return printable_lines(bytes) == bytes; }

std::string hex_dump(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const std::string_view row = bytes.substr(at, 16);
    std::array<char, 24> offset{};
    std::snprintf(offset.data(), offset.size(), "%06zx  ", at);
    std::string left;
    std::string right;
    for (std::size_t i = 0; i < row.size(); ++i) {
      left += hexadecimal(row.substr(i, 1)) + (i == 7 ? "  " : " ");
      right += row[i] >= 0x20 && row[i] < 0x7F ? row[i] : '.';
    }
    text += offset.data() + fit(left, 50) + right + "\n";
  }
  return text;
}

}  // namespace twinbox::cli
