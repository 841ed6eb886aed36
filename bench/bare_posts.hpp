// A hand-written sender: what libcurl can do when there is no store, no lease and no retry.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace twinbox::bench {

/// The same POST again and again over so many kept connections, on one thread, for the time of
/// `slice`. Returns requests per second. Throws std::runtime_error for an answer other than 200.
double bare_posts(const std::string& url, std::size_t connections, const std::string& payload,
                  std::chrono::milliseconds slice);

}  // namespace twinbox::bench
