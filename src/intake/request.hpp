// The parts of a request that the intakes read.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/encoding.hpp"
#include "twinbox/intake.hpp"

namespace twinbox {

/// The metadata that a message's headers carry.
struct Properties {
  std::vector<std::pair<std::string_view, std::string_view>> own = {};
  bool with_trace = true;
};

/// A JSON object: the transport's name, `properties`, the trace context, the kept headers.
std::string properties_of(const HttpRequest& request, const IntakeOptions& options,
                          const Properties& properties);
MessageExtras extras_of(const HttpRequest& request, const IntakeOptions& options,
                        const Properties& properties);

/// The first parameter of that name in the query, decoded. Throws RequestError for an escape that
/// is none.
std::optional<std::string> query_value(const HttpRequest& request, std::string_view name);

/// `Idempotency-Key` or `ce-id`.
std::optional<std::string> id_of(const HttpRequest& request);

/// The value of a key: a quoted one is a string of RFC 8941, without its quotation marks and
/// escapes. Throws RequestError.
std::string idempotency_key(std::string_view text);

/// Throws RequestError for an expiry that has passed, and for a key that would be blocked for long.
void check_times(const MessageExtras& extras, const IntakeOptions& options);

/// Throws RequestError, 403, for a source that belongs to a webhook endpoint, a broker or another
/// sender.
void check_source(const Source& source, const HttpRequest& request, const IntakeOptions& options);

/// By the environment's clock, or by this machine's.
Instant now_of(const IntakeOptions& options);

}  // namespace twinbox
