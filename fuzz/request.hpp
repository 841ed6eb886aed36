// Requests as fuzzers write them: `method target`, lines of `name:value`, an empty line, the body.
#pragma once

#include <string>
#include <string_view>

#include <twinbox/http.hpp>

inline twinbox::HttpRequest request_of(std::string_view text) {
  const auto next_line = [&] {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
  };
  twinbox::HttpRequest request;
  const std::string_view first = next_line();
  const std::size_t blank = first.find(' ');
  request.method = first.substr(0, blank);
  request.target = blank == std::string_view::npos ? "" : first.substr(blank + 1);
  while (!text.empty()) {
    const std::string_view line = next_line();
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    request.headers.add(std::string{line.substr(0, colon)}, std::string{line.substr(colon + 1)});
  }
  request.body = text;
  return request;
}
