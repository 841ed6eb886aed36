// An answer as it goes over the wire.
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

/// What follows an answer. HTTP/1.0 is told that its connection stays, HTTP/1.1 that it closes.
enum class ConnectionMode { close, keep, keep_with_header };

/// `head_only`: the answer to HEAD. What must not stand in a header field is left out.
std::string response_text(const HttpResponse& response, Instant now, ConnectionMode afterwards,
                          bool head_only);

}  // namespace twinbox::app
