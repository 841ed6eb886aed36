#include "core/json.hpp"

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "core/text.hpp"

namespace twinbox {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool is_hex_digit(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Of ASCII, and nothing but itself inside a string.
bool is_plain(char c) noexcept { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

/// Reads without recursion: each open array or object is one bit.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text, std::string_view wanted = {}) noexcept
      : text_(text), wanted_(wanted) {}

  /// True once the outermost object is known to have the wanted member.
  [[nodiscard]] bool found() const noexcept { return found_; }

  /// Receives the parts of the outermost object or array.
  void collect(std::vector<JsonPart>& parts) noexcept { parts_ = &parts; }

  bool read_object() {
    skip_blanks();
    return peek() == '{' && read();
  }

  bool read_array() {
    skip_blanks();
    return peek() == '[' && read();
  }

  bool read() {
    skip_blanks();
    if (!read_value()) return false;
    while (depth_ > 0) {
      if (!read_member()) return false;
      if (in_part_ && depth_ == 1) end_part();
    }
    skip_blanks();
    return at_ == text_.size();
  }

 private:
  /// One element of the innermost open value, or its end.
  bool read_member() noexcept {
    skip_blanks();
    const bool in_object = is_object_[depth_ - 1];
    if (peek() == (in_object ? '}' : ']')) {
      if (after_comma_) return false;
      ++at_;
      --depth_;
      first_ = false;
      return true;
    }
    if (!first_ && !after_comma_) {
      if (!take(',')) return false;
      after_comma_ = true;
      return true;
    }
    if (in_object && !read_key()) return false;
    first_ = after_comma_ = false;
    if (depth_ == 1) {
      in_part_ = true;
      part_begin_ = at_;
    }
    return read_value();
  }

  void end_part() {
    in_part_ = false;
    if (parts_ != nullptr) {
      parts_->push_back({key_, text_.substr(part_begin_, at_ - part_begin_)});
    }
  }

  bool read_key() noexcept {
    const std::size_t begin = at_ + 1;
    if (!read_string()) return false;
    if (depth_ == 1) {
      key_ = text_.substr(begin, at_ - 1 - begin);
      if (key_ == wanted_) found_ = true;
    }
    skip_blanks();
    if (!take(':')) return false;
    skip_blanks();
    return true;
  }

  bool read_value() noexcept {
    switch (peek()) {
      case '{':
      case '[': return open(peek());
      case '"': return read_string();
      case 't': return take_word("true");
      case 'f': return take_word("false");
      case 'n': return take_word("null");
      default: return read_number();
    }
  }

  bool open(char bracket) noexcept {
    if (depth_ == max_json_depth || !take(bracket)) return false;
    is_object_[depth_++] = bracket == '{';
    first_ = true;
    after_comma_ = false;
    return true;
  }

  bool read_string() noexcept {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      while (is_plain(peek())) ++at_;
      if (at_ == text_.size()) return false;
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (take('"')) return true;
      if (c == '\\') {
        if (!read_escape()) return false;
        continue;
      }
      const CodePoint point = decode_utf8(text_, at_);
      if (!point.valid) return false;
      at_ += point.length;
    }
    return false;
  }

  bool read_escape() noexcept {
    ++at_;
    const char c = peek();
    if (c == '\0' || std::string_view{"\"\\/bfnrtu"}.find(c) == std::string_view::npos)
      return false;
    ++at_;
    if (c != 'u') return true;
    for (int i = 0; i < 4; ++i, ++at_) {
      if (!is_hex_digit(peek())) return false;
    }
    return true;
  }

  bool read_number() noexcept {
    take('-');
    if (!take('0') && !read_digits()) return false;
    if (take('.') && !read_digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return read_digits();
    }
    return true;
  }

  bool read_digits() noexcept {
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return at_ > begin;
  }

  bool take_word(std::string_view word) noexcept {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool take(char c) noexcept {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_blanks() noexcept {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }

  /// NUL stands for the end too: no rule of the grammar takes one.
  [[nodiscard]] char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  std::string_view wanted_;
  bool found_ = false;
  std::vector<JsonPart>* parts_ = nullptr;
  std::string_view key_;        ///< of the outermost object, the last one read
  std::size_t part_begin_ = 0;  ///< of the value that is being read in what is outermost
  bool in_part_ = false;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool first_ = false;        ///< nothing has been read in what is open
  bool after_comma_ = false;  ///< an element must follow
  std::bitset<max_json_depth> is_object_;
};

void append_escape(std::string& out, char32_t control) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += "\\u00";
  out += digits[control >> 4];
  out += digits[control & 0xF];
}

std::uint32_t hex_value(std::string_view digits) noexcept {
  std::uint32_t value = 0;
  for (const char c : digits) {
    value = value << 4 | static_cast<std::uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

/// The code point of the escape at `at` and, for a surrogate, of the one behind it; 0xFFFFFFFF: its
/// other half is missing.
char32_t unescape_unit(std::string_view text, std::size_t& at) noexcept {
  constexpr char32_t none = 0xFFFF'FFFF;
  const char32_t unit = hex_value(text.substr(at + 2, 4));
  at += 6;
  if (unit < 0xD800 || unit > 0xDFFF) return unit;
  if (unit > 0xDBFF || text.substr(at, 2) != "\\u") return none;
  const char32_t low = hex_value(text.substr(at + 2, 4));
  if (low < 0xDC00 || low > 0xDFFF) return none;
  at += 6;
  return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
}

char plain_escape(char c) noexcept {
  switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c;
  }
}

}  // namespace

// Nothing is collected here, so nothing is thrown.
bool is_json_object(std::string_view text) noexcept { return JsonReader{text}.read_object(); }

bool is_json(std::string_view text) noexcept { return JsonReader{text}.read(); }

std::optional<std::vector<JsonPart>> split_json_object(std::string_view text) {
  std::vector<JsonPart> parts;
  JsonReader reader{text};
  reader.collect(parts);
  if (!reader.read_object()) return std::nullopt;
  return parts;
}

std::optional<std::vector<JsonPart>> split_json_array(std::string_view text) {
  std::vector<JsonPart> parts;
  JsonReader reader{text};
  reader.collect(parts);
  if (!reader.read_array()) return std::nullopt;
  return parts;
}

std::optional<std::string> unescape_json(std::string_view inside) {
  if (inside.find('\\') == std::string_view::npos) return std::string{inside};
  std::string text;
  text.reserve(inside.size());
  for (std::size_t at = 0; at < inside.size();) {
    if (inside[at] != '\\') {
      text += inside[at++];
    } else if (inside[at + 1] != 'u') {
      text += plain_escape(inside[at + 1]);
      at += 2;
    } else {
      const char32_t point = unescape_unit(inside, at);
      if (point > 0x10FFFF) return std::nullopt;
      append_utf8(text, point);
    }
  }
  return text;
}

std::optional<std::string> json_string(std::string_view value) {
  if (!value.starts_with('"')) return std::nullopt;
  return unescape_json(value.substr(1, value.size() - 2));
}

bool json_object_has(std::string_view text, std::string_view member) noexcept {
  JsonReader reader{text, member};
  return reader.read_object() && reader.found();
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    at += point.length;
    switch (point.value) {
      case U'"': out += "\\\""; break;
      case U'\\': out += "\\\\"; break;
      case U'\b': out += "\\b"; break;
      case U'\f': out += "\\f"; break;
      case U'\n': out += "\\n"; break;
      case U'\r': out += "\\r"; break;
      case U'\t': out += "\\t"; break;
      default:
        if (point.value < 0x20) {
          append_escape(out, point.value);
        } else {
          append_utf8(out, point.value);
        }
    }
  }
  out += '"';
}

}  // namespace twinbox
