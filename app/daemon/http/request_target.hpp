// Parses and decodes the path and the query of a request target.
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

  /// The first parameter with this name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
};

/// Empty: invalid escapes.
std::optional<std::string> percent_decoded(std::string_view text);

/// Empty: not a path with a query, or invalid escapes.
std::optional<RequestTarget> parse_request_target(std::string_view text);

}  // namespace twinbox::app
