// W3C trace context: which trace a message belongs to, and which span sent it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "twinbox/environment.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

/// One span of a trace, as it travels in `traceparent` and `tracestate`.
struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};  ///< never all zero
  std::array<std::uint8_t, 8> span_id{};    ///< never all zero
  std::uint8_t flags = 0;                   ///< bit 0: sampled, bit 1: the trace id is random
  std::string state = {};                   ///< `tracestate`, as it came; empty: none

  /// Empty unless `traceparent` is well-formed. A malformed `tracestate` is left out, as W3C has
  /// it.
  static std::optional<TraceContext> parse(std::string_view traceparent,
                                           std::string_view tracestate = {});
  /// A new trace, sampled, with its first span.
  static TraceContext start(const Environment& environment);
  /// A new span of the same trace, whose parent this one is.
  [[nodiscard]] TraceContext child(const Environment& environment) const;

  [[nodiscard]] bool sampled() const noexcept { return (flags & 1U) != 0; }
  [[nodiscard]] std::string traceparent() const;
  [[nodiscard]] std::string trace_id_text() const;  ///< 32 hexadecimal digits
  [[nodiscard]] std::string span_id_text() const;   ///< 16 hexadecimal digits

  bool operator==(const TraceContext&) const = default;
};

/// The context that was stored with a message: its headers' `traceparent`, or else the event's.
/// Empty: it has none, or none that is well-formed.
std::optional<TraceContext> trace_of(const Message& message);

/// What this thread is doing: set while a TraceScope lives, by handlers' spans and by you.
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
