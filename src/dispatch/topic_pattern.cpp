#include <optional>
#include <stdexcept>

#include "core/text.hpp"
#include "twinbox/handler.hpp"

namespace twinbox {
namespace {

constexpr std::size_t longest = 500;  // the longest topic, that of an event

/// The words of a text, one after the other, without a copy.
class Words {
 public:
  explicit Words(std::string_view text) noexcept : rest_(text) {}

  [[nodiscard]] bool empty() const noexcept { return !rest_; }
  std::string_view next() noexcept {
    const std::size_t dot = rest_->find('.');
    const std::string_view word = rest_->substr(0, dot);
    if (dot == std::string_view::npos) {
      rest_.reset();
    } else {
      rest_->remove_prefix(dot + 1);
    }
    return word;
  }

 private:
  std::optional<std::string_view> rest_;
};

void check_word(std::string_view pattern, std::string_view word) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("topic pattern '" + std::string{pattern} + "': " + why);
  };
  if (word.empty()) refuse("a word is empty; words are separated by single dots");
  const std::size_t sign = word.find_first_of("*#");
  if (sign == std::string_view::npos || word.size() == 1) return;
  refuse("'" + std::string{word} + "' mixes '" + word[sign] +
         "' with other characters; it must be a word of its own, as in 'order.*'");
}

}  // namespace

TopicPattern::TopicPattern(std::string_view text) : text_(text) {
  check_text("topic pattern", text, longest);
  for (Words words{text_}; !words.empty();) {
    words_.emplace_back(words.next());
    check_word(text_, words_.back());
  }
}

bool TopicPattern::matches(std::string_view topic) const noexcept {
  Words rest{topic};
  std::size_t at = 0;
  // Where to go on when what follows the last `#` does not fit: that `#` takes one word more.
  std::optional<std::size_t> after_hash;
  Words hash_rest = rest;
  for (;;) {
    if (at < words_.size() && words_[at] == "#") {
      after_hash = ++at;
      hash_rest = rest;
      continue;
    }
    if (rest.empty() && at == words_.size()) return true;
    if (!rest.empty() && at < words_.size()) {
      const std::string_view word = rest.next();
      if (words_[at] == "*" || words_[at] == word) {
        ++at;
        continue;
      }
    }
    if (!after_hash || hash_rest.empty()) return false;
    hash_rest.next();
    rest = hash_rest;
    at = *after_hash;
  }
}

}  // namespace twinbox
