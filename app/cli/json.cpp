#include "cli/json.hpp"

#include <array>
#include <boost/json/parse.hpp>
#include <cstdio>

#include "cli/text.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    text += digits.data();
  }
  return text;
}

bool is_json(std::string_view text) {
  json::error_code error;
  json::parse(text, error, {}, {.max_depth = 200});
  return !error;
}

/// Indents the tokens without interpreting them: numbers and repeated keys stay unchanged.
class Indenter {
 public:
  std::string lay_out(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '"') {
        const std::size_t end = end_of_string(text, at);
        put(text.substr(at, end - at));
        at = end - 1;
      } else if (c == '{' || c == '[') {
        put(text.substr(at, 1));
        ++depth_;
        fresh_ = true;
      } else if (c == '}' || c == ']') {
        --depth_;
        if (!fresh_) new_line();
        fresh_ = false;
        result_ += c;
      } else if (c == ',') {
        result_ += c;
        new_line();
      } else if (c == ':') {
        result_ += ": ";
      } else if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
        put(text.substr(at, 1));
      }
    }
    return std::move(result_);
  }

 private:
  static std::size_t end_of_string(std::string_view text, std::size_t at) {
    for (++at; text[at] != '"'; ++at) {
      if (text[at] == '\\') ++at;
    }
    return at + 1;
  }
  void put(std::string_view token) {
    if (fresh_) new_line();
    fresh_ = false;
    result_ += token;
  }
  void new_line() { result_ += "\n" + std::string(static_cast<std::size_t>(2 * depth_), ' '); }

  std::string result_;
  int depth_ = 0;
  bool fresh_ = false;  ///< right after an opening bracket
};

}  // namespace

json::object to_json(const StateCounts& counts, bool history) {
  json::object object = app::to_json(counts);
  if (history) {
    object["done"] = counts.done;
    object["discarded"] = counts.discarded;
    object["marked"] = counts.marked;
    object["seen"] = counts.seen;
  }
  return object;
}

void print_json(const Screen& screen, const json::value& value) {
  screen.print(Indenter{}.lay_out(app::json_text(value)) + "\n");
}

std::string indented_json(std::string_view text) {
  return is_json(text) ? Indenter{}.lay_out(text) : std::string{};
}

bool is_text(std::string_view bytes) { return printable_lines(bytes) == bytes; }

std::string hex_dump(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const std::string_view row = bytes.substr(at, 16);
    std::array<char, 24> offset{};
    std::snprintf(offset.data(), offset.size(), "%06zx  ", at);
    std::string left;
    std::string right;
    for (std::size_t i = 0; i < row.size(); ++i) {
      left += hexadecimal(row.substr(i, 1)) + (i == 7 ? "  " : " ");
      right += row[i] >= 0x20 && row[i] < 0x7F ? row[i] : '.';
    }
    text += offset.data() + fit(left, 50) + right + "\n";
  }
  return text;
}

}  // namespace twinbox::cli
