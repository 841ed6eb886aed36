#include "transport/http/sink_request.hpp"

#include <algorithm>
#include <array>

#include "core/json.hpp"
#include "core/text.hpp"
#include "event/attribute.hpp"
#include "transport/deduplication_key.hpp"
#include "transport/http/retry_after.hpp"
#include "twinbox/event.hpp"

namespace twinbox {
namespace {

constexpr Duration shortest_delay = std::chrono::seconds{1};

bool is_envelope(const Message& message) {
  return message.content_type && media_type(*message.content_type) == event_content_type;
}

BodyFormat format_of(const Message& message, BodyFormat form) {
  if (form != BodyFormat::automatic) return form;
  return is_envelope(message) ? BodyFormat::binary : BodyFormat::raw;
}

HttpContent raw_content(const Message& message) {
  HttpContent content{{}, message.payload};
  const auto add = [&](const char* name, std::string_view value) {
    content.headers.add(name, percent_encode(value, "%"));
  };
  content.headers.add("Content-Type", message.content_type.value_or("application/octet-stream"));
  const std::string key = deduplication_key(message);
  content.headers.add("Idempotency-Key", key);
  content.headers.add("twinbox-id", key);
  add("twinbox-source", message.source.view());
  add("twinbox-topic", message.topic.view());
  add("twinbox-created-at", Timestamp{message.created_at}.str());
  if (message.correlation_id) add("twinbox-correlation-id", message.correlation_id->view());
  if (message.partition_key) add("twinbox-partition-key", message.partition_key->view());
  return content;
}

HttpContent content_of(const Message& message, BodyFormat form) {
  switch (form) {
    case BodyFormat::binary: return to_http(event_of(message), ContentMode::binary);
    case BodyFormat::structured: return to_http(event_of(message), ContentMode::structured);
    case BodyFormat::raw:
    case BodyFormat::automatic: break;
  }
  return raw_content(message);
}

/// The redirect target, without parts that may be secret.
std::string redirect_of(const HttpResponse& response) {
  const auto location = response.headers.find("Location");
  if (!location) return "redirects are not followed";
  return "redirects are not followed; set the address to " +
         std::string{location->substr(0, location->find_first_of("?#"))};
}

std::string error_of(const HttpResponse& response, const std::string& display_name) {
  std::string error = display_name + ": HTTP " + std::to_string(response.status);
  if (response.status >= 300 && response.status < 400) error += ", " + redirect_of(response);
  if (!is_blank(response.body)) error += ": " + response.body;
  return truncate_error(error);
}

/// A Twinbox receiver has treated the request as a duplicate and keeps its content. Longer bodies
/// cannot be its answer and are not parsed.
bool is_conflict(const HttpResponse& response) {
  constexpr std::size_t longest = 4096;
  constexpr std::array<std::string_view, 4> members = {"state", "source", "id", "conflict"};
  if (response.status != 200 || response.body.size() > longest) return false;
  if (!is_json(response.body)) return false;
  const auto parts = split_json_object(response.body);
  return parts && std::ranges::equal(*parts, members, {}, &JsonPart::name) &&
         parts->back().value == "true";
}

std::optional<Duration> delay_of(const HttpResponse& response, const HttpSinkOptions& options,
                                 Instant now) {
  const auto value = response.headers.find("Retry-After");
  if (!value) return {};
  // By the receiver's own clock, if it sends one.
  const auto date = response.headers.find("Date");
  const std::optional<Instant> its_now = date ? parse_http_date(*date, now) : std::nullopt;
  const auto delay = parse_retry_after(*value, its_now.value_or(now));
  if (!delay) return {};
  return std::clamp(Duration{*delay}, std::min(shortest_delay, options.max_retry_after),
                    options.max_retry_after);
}

}  // namespace

HttpRequest request_of(const Message& message, const HttpSinkOptions& options) {
  HttpContent content = content_of(message, format_of(message, options.form));
  HttpRequest request{.method = options.method,
                      .target = options.url,
                      .headers = std::move(content.headers),
                      .body = std::move(content.body)};
  request.headers.add("twinbox-attempt", std::to_string(std::int64_t{message.attempts} + 1));
  // Unchanged: a span of its own that is never exported would leave the receiver's without a
  // parent.
  std::optional<TraceContext> trace = current_trace();
  if (!trace) trace = trace_of(message);
  if (trace) {
    request.headers.add("traceparent", trace->traceparent());
    if (!trace->state.empty()) request.headers.add("tracestate", trace->state);
  }
  for (const HttpHeaders::Field& field : options.headers) {
    request.headers.set(field.name, field.value);
  }
  return request;
}

Outcome outcome_of(const HttpResponse& response, const HttpSinkOptions& options,
                   const std::string& display_name, Instant now) {
  const int status = response.status;
  const bool success = status >= 200 && status < 300;
  if (options.dead_on.contains(status)) {
    return Outcome::dead(error_of(response, display_name), {"http", status});
  }
  if (options.done_on.contains(status)) return Outcome::done();
  if (success && is_conflict(response)) {
    return Outcome::conflict(display_name +
                             ": the receiver has other content under this id and keeps it; send "
                             "changed content under a new id");
  }
  if (success) return Outcome::done();
  if (status == 410) throw ReceiverGone(display_name + ": HTTP 410, gone");
  return Outcome::retry(error_of(response, display_name), delay_of(response, options, now),
                        {"http", status});
}

}  // namespace twinbox
