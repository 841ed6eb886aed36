// Patterns over topics: `order.*`, `order.#`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twinbox {

/// A topic is words with dots between them. In a pattern the word `*` stands for exactly one word,
/// `#` for any number of words, also for none; every other word stands for itself, byte by byte.
class TopicPattern {
 public:
  /// Throws std::invalid_argument, naming the pattern and the way out, for a text that no topic can
  /// be (see BoundedText; at most 500 characters), an empty word, and a `*` or `#` that is only a
  /// part of its word.
  explicit TopicPattern(std::string_view text);

  [[nodiscard]] bool matches(std::string_view topic) const noexcept;
  [[nodiscard]] const std::string& str() const noexcept { return text_; }

  bool operator==(const TopicPattern& other) const noexcept { return text_ == other.text_; }

 private:
  std::string text_;
  std::vector<std::string> words_;
};

}  // namespace twinbox
