// Topic patterns beside a slow matcher that is easy to believe. First line: pattern, rest: topic.
#include <stdexcept>
#include <vector>

#include "require.hpp"
#include <twinbox/handler.hpp>

using namespace twinbox;

namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t dot; (dot = text.find('.')) != std::string_view::npos;) {
    words.push_back(text.substr(0, dot));
    text.remove_prefix(dot + 1);
  }
  words.push_back(text);
  return words;
}

/// fits[p][t]: the pattern's words from p on fit the topic's words from t on.
bool slow_match(std::string_view pattern, std::string_view topic) {
  const auto p = words_of(pattern);
  const auto t = words_of(topic);
  std::vector fits(p.size() + 1, std::vector<bool>(t.size() + 2, false));
  fits[p.size()][t.size()] = true;
  for (std::size_t i = p.size(); i-- > 0;) {
    for (std::size_t j = t.size() + 1; j-- > 0;) {
      const bool one = j < t.size() && (p[i] == "*" || p[i] == t[j]) && fits[i + 1][j + 1];
      fits[i][j] = p[i] == "#" ? fits[i + 1][j] || (j < t.size() && fits[i][j + 1]) : one;
    }
  }
  return fits[0][0];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = text_of(data, size);
  const std::size_t end = input.find('\n');
  if (end == std::string_view::npos || size > 2000) return 0;
  const std::string_view topic = input.substr(end + 1);
  try {
    const TopicPattern pattern{input.substr(0, end)};
    require(pattern.matches(topic) == slow_match(pattern.str(), topic), "both matchers agree");
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
