// Absolute addresses of HTTP.
#pragma once

#include <string>

namespace twinbox {

struct HttpUrl {
  std::string text;          ///< as it was given
  std::string host;          ///< scheme, host and port: what requests are counted by
  std::string display_name;  ///< for errors and logs: without the query, which may hold a secret

  /// Throws std::invalid_argument for what is no `http` or `https` address, and for one with a user
  /// or a fragment.
  static HttpUrl parse(const std::string& text);
};

}  // namespace twinbox
