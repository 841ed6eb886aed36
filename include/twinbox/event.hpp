// CloudEvents 1.0: the value, its JSON format, its HTTP binding, and how it is stored as a message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "twinbox/environment.hpp"
#include "twinbox/http.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

/// The input is no CloudEvent. The text begins with the attribute and never shows data.
class EventError : public std::invalid_argument {
 public:
  EventError(std::string attribute, const std::string& why);

  /// The attribute, header or member that is wrong.
  [[nodiscard]] const std::string& attribute() const noexcept { return attribute_; }

 private:
  std::string attribute_;
};

/// An RFC 3339 time: the original text, and an instant truncated to the microsecond.
class Timestamp {
 public:
  /// In UTC, with as many digits as it needs.
  explicit Timestamp(Instant instant);
  /// Empty unless `text` is a date and time with its offset.
  static std::optional<Timestamp> parse(std::string_view text);

  [[nodiscard]] Instant instant() const noexcept { return instant_; }
  [[nodiscard]] const std::string& str() const noexcept { return text_; }

  bool operator==(const Timestamp&) const = default;

 private:
  Timestamp(Instant instant, std::string text) : instant_(instant), text_(std::move(text)) {}

  Instant instant_;
  std::string text_;
};

/// The value of an extension. Binary values travel as base64, URIs and timestamps as their text.
using Extension = std::variant<std::string, bool, std::int32_t>;

enum class DataKind {
  none,
  json,    ///< `data` is JSON text
  text,    ///< `data` is UTF-8 text
  binary,  ///< `data` is any bytes
};

struct CloudEvent {
  std::string id;      ///< at most 256 characters
  std::string source;  ///< a URI reference; at most 255 characters can be stored
  std::string type;    ///< at most 500 characters
  std::optional<std::string> subject = {};
  std::optional<Timestamp> time = {};
  std::optional<std::string> datacontenttype = {};  ///< empty: JSON when the data is JSON
  std::optional<std::string> dataschema = {};       ///< a URI
  /// Names are lower-case letters and digits, at most 64; at most 100 of them.
  std::map<std::string, Extension, std::less<>> extensions = {};
  DataKind data_kind = DataKind::none;
  std::string data = {};

  /// Data of the kind that `datacontenttype` names: JSON, text, or bytes. Without it: JSON.
  void set_data(std::string content, std::optional<std::string> content_type = {});
  /// The extension as a header would carry it; empty: it does not exist.
  [[nodiscard]] std::optional<std::string> extension(std::string_view name) const;
  /// Throws EventError for an event that receivers would refuse.
  void check() const;

  bool operator==(const CloudEvent&) const = default;
};

inline constexpr std::string_view event_content_type = "application/cloudevents+json";
inline constexpr std::string_view event_batch_content_type = "application/cloudevents-batch+json";

/// The JSON format. Throws EventError when the event is not valid.
std::string to_json(const CloudEvent& event);
std::string to_json(std::span<const CloudEvent> batch);
/// Strict: throws EventError. JSON data is kept byte by byte.
CloudEvent event_from_json(std::string_view text);
std::vector<CloudEvent> events_from_json(std::string_view batch, std::size_t max_events = 10'000);

/// How events travel over HTTP.
enum class ContentMode { binary, structured, batch };

/// The headers and the body of a request or an answer.
struct HttpContent {
  HttpHeaders headers;
  std::string body;
};

/// Empty: these are not the headers of a CloudEvent.
std::optional<ContentMode> content_mode(const HttpHeaders& headers);
/// Throws EventError when the event is not valid.
HttpContent to_http(const CloudEvent& event, ContentMode mode = ContentMode::binary);
HttpContent to_http(std::span<const CloudEvent> batch);
/// One event, or those of a batch. Throws EventError.
std::vector<CloudEvent> events_from_http(const HttpHeaders& headers, std::string_view body,
                                         std::size_t max_events = 10'000);

/// The stored form: the payload is the envelope in the JSON format, the topic is the type. The
/// extensions `partitionkey`, `correlationid`, `expirytime`, `traceparent` and `tracestate` also
/// become the message's own fields. `properties`: a JSON object that is added to the headers.
/// Throws EventError.
NewMessage to_message(const CloudEvent& event, std::string_view properties = {});
Arrival to_arrival(const CloudEvent& event, std::string_view properties = {});

/// The event in a message. A message without an envelope is wrapped: id, source and type come from
/// the row, its payload is the data. Throws EventError for a damaged envelope.
CloudEvent event_of(const Message& message);

/// A member of the message's headers: text unchanged, anything else as JSON. Empty: no such member.
std::optional<std::string> property_of(const Message& message, std::string_view name);

// W3C trace context: which trace a message belongs to, and which span sent it.

/// One span of a trace, as it travels in `traceparent` and `tracestate`.
struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};  ///< never all zero
  std::array<std::uint8_t, 8> span_id{};    ///< never all zero
  std::uint8_t flags = 0;                   ///< bit 0: sampled, bit 1: the trace id is random
  std::string state = {};                   ///< `tracestate`, unchanged; empty: none

  /// Empty unless `traceparent` is well-formed. A malformed `tracestate` is dropped, as W3C
  /// requires.
  static std::optional<TraceContext> parse(std::string_view traceparent,
                                           std::string_view tracestate = {});
  /// A new trace, sampled, with its first span.
  static TraceContext start(const Environment& environment);
  /// A new child span of this one, in the same trace.
  [[nodiscard]] TraceContext child(const Environment& environment) const;

  [[nodiscard]] bool sampled() const noexcept { return (flags & 1U) != 0; }
  [[nodiscard]] std::string traceparent() const;
  [[nodiscard]] std::string trace_id_text() const;  ///< 32 hexadecimal digits
  [[nodiscard]] std::string span_id_text() const;   ///< 16 hexadecimal digits

  bool operator==(const TraceContext&) const = default;
};

/// The context that was stored with a message: its headers' `traceparent`, or else the event's.
/// Empty: neither is well-formed.
std::optional<TraceContext> trace_of(const Message& message);

/// The current trace of this thread: set while a TraceScope lives, by handlers' spans and by you.
std::optional<TraceContext> current_trace();

class TraceScope {
 public:
  explicit TraceScope(TraceContext context);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  std::optional<TraceContext> former_;
};

}  // namespace twinbox
