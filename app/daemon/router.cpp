#include "daemon/router.hpp"

#include <algorithm>

namespace twinbox::app {

Router& Router::add(Endpoint endpoint) {
  std::vector<std::string> segments = parse_target(endpoint.path).value().segments;
  for (std::string& segment : segments) {
    if (segment.starts_with('{')) segment.clear();
  }
  entries_.push_back({std::move(endpoint), std::move(segments)});
  return *this;
}

std::vector<std::pair<std::string, std::string>> Router::endpoints() const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const Entry& entry : entries_) {
    list.emplace_back(entry.endpoint.method, entry.endpoint.path);
  }
  return list;
}

std::variant<Match, HttpResponse> Router::find(std::string_view method,
                                               std::string_view target) const {
  std::optional<Target> parsed = parse_target(target);
  if (!parsed) {
    return problem(400, "Bad Request", "the target is no path, or its %-escapes are broken");
  }
  std::string allowed;
  for (const Entry& entry : entries_) {
    const bool fits = std::ranges::equal(entry.segments, parsed->segments,
                                         [](const std::string& known, const std::string& given) {
                                           return known.empty() ? !given.empty() : known == given;
                                         });
    if (!fits) continue;
    const std::string& wanted = entry.endpoint.method;
    if (wanted == method || (wanted == "GET" && method == "HEAD")) {
      return Match{&entry.endpoint, std::move(*parsed)};
    }
    allowed += (allowed.empty() ? "" : ", ") + wanted;
  }
  if (allowed.empty()) {
    return problem(404, "Not Found", "there is nothing here; /openapi.json lists what there is");
  }
  HttpResponse refusal =
      problem(405, "Method Not Allowed", "this path takes " + allowed + " and nothing else");
  refusal.headers.add("Allow", allowed);
  return refusal;
}

}  // namespace twinbox::app
