// The target of a request: path and query, taken apart and decoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twinbox::app {

struct RequestTarget {
  std::vector<std::string> segments;  ///< of the path, decoded
  std::vector<std::pair<std::string, std::string>> query;

  /// The first of that name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
};

/// Empty: its escapes are broken.
std::optional<std::string> percent_decoded(std::string_view text);

/// Empty: it is no path with a query, or its escapes are broken.
std::optional<RequestTarget> parse_request_target(std::string_view text);

}  // namespace twinbox::app
