// The page that the daemon serves, as a part of the program.
#pragma once

#include <span>
#include <string_view>

namespace twinbox::app {

struct Asset {
  std::string_view path;  ///< as requested: "/" is the page, "/assets/…" never change their content
  std::string_view content_type;
  std::string_view etag;  ///< quoted, as the header has it
  std::string_view content;
  std::string_view gzip;  ///< the same, compressed
};

/// Empty when the program was built without Node.js.
std::span<const Asset> dashboard_assets();

}  // namespace twinbox::app
