#include "daemon/http/http_router.hpp"

#include <algorithm>

namespace twinbox::app {

HttpRouter& HttpRouter::add(Endpoint endpoint) {
  std::vector<std::optional<std::string>> segments;
  RequestTarget path = parse_request_target(endpoint.path).value();
  for (std::string& segment : path.segments) {
    if (segment.starts_with('{')) {
      segments.emplace_back();
    } else {
      segments.emplace_back(std::move(segment));
    }
  }
  entries_.push_back({std::move(endpoint), std::move(segments)});
  return *this;
}

std::vector<std::pair<std::string, std::string>> HttpRouter::endpoints() const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const Entry& entry : entries_) {
    list.emplace_back(entry.endpoint.method, entry.endpoint.path);
  }
  return list;
}

EndpointLookup HttpRouter::find(std::string_view method, std::string_view target) const {
  std::optional<RequestTarget> parsed = parse_request_target(target);
  if (!parsed) {
    return problem(400, "Bad Request",
                   "the request target is not a valid path; check its %-escapes");
  }
  std::string allowed;
  for (const Entry& entry : entries_) {
    const bool fits =
        std::ranges::equal(entry.segments, parsed->segments,
                           [](const std::optional<std::string>& known, const std::string& given) {
                             return known ? *known == given : !given.empty();
                           });
    if (!fits || (entry.endpoint.exists && !entry.endpoint.exists(*parsed))) continue;
    const std::string& wanted = entry.endpoint.method;
    if (wanted == method || (wanted == "GET" && method == "HEAD")) {
      return Match{&entry.endpoint, std::move(*parsed)};
    }
    allowed += (allowed.empty() ? "" : ", ") + wanted + (wanted == "GET" ? ", HEAD" : "");
  }
  if (allowed.empty()) {
    return problem(404, "Not Found", "no endpoint has this path; see /openapi.json");
  }
  HttpResponse refusal = problem(405, "Method Not Allowed", "this path only supports " + allowed);
  refusal.headers.add("Allow", allowed);
  return refusal;
}

}  // namespace twinbox::app
