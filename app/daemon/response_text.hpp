// An answer as it goes over the wire.
#pragma once

#include <string>
#include <string_view>

#include <twinbox/http.hpp>

namespace twinbox::app {

/// `Not Found` for 404.
std::string title_of(int status);

/// 503, with Retry-After.
HttpResponse busy(std::string_view why);

/// `head_only`: the answer to HEAD. What must not stand in a header field is left out.
std::string response_text(const HttpResponse& response, bool keep_alive, bool head_only);

}  // namespace twinbox::app
