// Serializes responses.
#pragma once

#include <string>
#include <string_view>

#include <twinbox/environment.hpp>
#include <twinbox/http.hpp>

namespace twinbox::app {

/// `Not Found` for 404.
std::string title_of(int status);

/// 503, with Retry-After.
HttpResponse busy(std::string_view why);

/// `Sun, 06 Nov 1994 08:49:37 GMT`
std::string http_date(Instant at);

/// The connection state after a response. The header names it if the connection stays open for
/// HTTP/1.0, or closes for HTTP/1.1.
enum class ConnectionMode { close, keep, keep_with_header };

/// `head_only`: the response to HEAD. Characters that a header field must not contain are left out.
std::string response_text(const HttpResponse& response, Instant now, ConnectionMode afterwards,
                          bool head_only);

}  // namespace twinbox::app
