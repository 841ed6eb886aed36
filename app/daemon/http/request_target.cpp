#include "daemon/http/request_target.hpp"

#include <algorithm>

namespace twinbox::app {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decode(std::string_view text, bool plus_is_blank) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += plus_is_blank && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) return {};
    const int value = digit(text[i + 1]) * 16 + digit(text[i + 2]);
    if (value == 0) return {};
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

/// Calls `take` for each part of `text` between separators; stops and returns false if it returns
/// false.
template <class Take>
bool each_part(std::string_view text, char separator, Take take) {
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (!take(text.substr(0, end))) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) { return decode(text, false); }

std::optional<std::string_view> RequestTarget::find(std::string_view name) const {
  const auto found = std::ranges::find(query, name, &std::pair<std::string, std::string>::first);
  if (found == query.end()) return {};
  return found->second;
}

std::optional<RequestTarget> parse_request_target(std::string_view text) {
  if (!text.starts_with('/')) return {};
  RequestTarget target;
  const std::size_t question = std::min(text.find('?'), text.size());
  const bool path_good = each_part(text.substr(1, question - 1), '/', [&](std::string_view part) {
    auto segment = decode(part, false);
    if (segment) target.segments.push_back(std::move(*segment));
    return segment.has_value();
  });
  if (!path_good) return {};
  if (question == text.size()) return target;
  const bool query_good = each_part(text.substr(question + 1), '&', [&](std::string_view part) {
    const std::size_t equals = std::min(part.find('='), part.size());
    auto name = decode(part.substr(0, equals), true);
    auto value = decode(part.substr(std::min(equals + 1, part.size())), true);
    if (!name || !value) return false;
    if (!part.empty()) target.query.emplace_back(std::move(*name), std::move(*value));
    return true;
  });
  if (!query_good) return {};
  return target;
}

}  // namespace twinbox::app
