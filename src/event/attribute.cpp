#include "event/attribute.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace twinbox {
namespace {

constexpr std::size_t max_name_length = 64;

bool is_lower(char c) noexcept { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept { return is_lower(ascii_lower(c)); }
bool is_hex(char c) noexcept { return hex_digit(c) >= 0; }

bool is_forbidden(char32_t point) noexcept {
  return point < 0x20 || (point >= 0x7F && point <= 0x9F) || (point >= 0xFDD0 && point <= 0xFDEF) ||
         (point & 0xFFFE) == 0xFFFE;
}

/// RFC 9110: what names of types and parameters are made of.
bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) ||
           (c != '\0' && std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos);
  });
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_quoted_string(std::string_view text) noexcept {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  for (std::size_t at = 1; at + 1 < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
    if (c == '\\' && ++at + 1 == text.size()) return false;
  }
  return true;
}

/// Takes the next parameter off `rest`, without its semicolon; quoted semicolons do not end it.
std::string_view next_parameter(std::string_view& rest) noexcept {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < rest.size() && (quoted || rest[end] != ';'); ++end) {
    if (rest[end] == '"') quoted = !quoted;
    if (quoted && rest[end] == '\\') ++end;
  }
  end = std::min(end, rest.size());
  const std::string_view parameter = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trim(parameter);
}

}  // namespace

std::string printable(std::string_view name) {
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    if (out.size() >= max_name_length) return out + "…";
    const CodePoint point = decode_utf8(name, at);
    append_utf8(out, is_forbidden(point.value) ? U'\uFFFD' : point.value);
    at += point.length;
  }
  return out;
}

void check_extension_name(std::string_view name) {
  if (name.empty()) {
    throw EventError("attribute name", "empty; give the attribute a name");
  }
  const bool fits = std::ranges::all_of(name, [](char c) { return is_lower(c) || is_digit(c); });
  if (!fits) {
    throw EventError(printable(name),
                     "not an attribute name; use only lower-case letters and digits");
  }
  if (name.size() > max_name_length) {
    throw EventError(printable(name), std::to_string(name.size()) +
                                          " characters in the name, at most " +
                                          std::to_string(max_name_length) + " are allowed");
  }
}

void check_string(std::string_view attribute, std::string_view value) {
  for (std::size_t at = 0; at < value.size();) {
    const CodePoint point = decode_utf8(value, at);
    if (!point.valid) {
      throw EventError(std::string{attribute},
                       "not UTF-8 (byte " + std::to_string(at + 1) + "); encode the text as UTF-8");
    }
    if (is_forbidden(point.value)) {
      throw EventError(std::string{attribute},
                       "contains a control character or noncharacter (byte " +
                           std::to_string(at + 1) + "); remove it");
    }
    at += point.length;
  }
}

void check_not_empty(std::string_view attribute, std::string_view value, std::size_t limit) {
  check_string(attribute, value);
  if (is_blank(value)) {
    throw EventError(std::string{attribute}, value.empty() ? "missing or empty; give it a value"
                                                           : "only blanks; give it a value");
  }
  if (const std::size_t length = utf16_length(value); length > limit) {
    throw EventError(std::string{attribute}, std::to_string(length) + " characters, at most " +
                                                 std::to_string(limit) + " are allowed");
  }
}

bool is_uri(std::string_view text, bool absolute) noexcept {
  if (text.empty()) return false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '%') {
      if (at + 2 >= text.size() || !is_hex(text[at + 1]) || !is_hex(text[at + 2])) return false;
      at += 2;
    } else if (!is_letter(c) && !is_digit(c) &&
               (c == '\0' ||
                std::string_view{"-._~:/?#[]@!$&'()*+,;="}.find(c) == std::string_view::npos)) {
      return false;
    }
  }
  if (!absolute) return true;
  const std::string_view scheme = text.substr(0, text.find(':'));
  return scheme.size() < text.size() && !scheme.empty() && is_letter(scheme[0]) &&
         std::ranges::all_of(scheme, [](char c) {
           return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
         });
}

bool is_media_type(std::string_view text) noexcept {
  std::string_view rest = text;
  const std::string_view essence = next_parameter(rest);
  const std::size_t slash = essence.find('/');
  if (slash == std::string_view::npos || !is_token(essence.substr(0, slash)) ||
      !is_token(essence.substr(slash + 1))) {
    return false;
  }
  while (!rest.empty()) {
    const std::string_view parameter = next_parameter(rest);
    if (parameter.empty()) continue;  // RFC 9110 lets a semicolon stand alone
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos || !is_token(parameter.substr(0, equals))) return false;
    const std::string_view value = parameter.substr(equals + 1);
    if (!is_token(value) && !is_quoted_string(value)) return false;
  }
  return true;
}

std::string media_type(std::string_view content_type) {
  return to_lower(trim(content_type.substr(0, content_type.find(';'))));
}

std::optional<std::string> media_type_parameter(std::string_view content_type,
                                                std::string_view name) {
  next_parameter(content_type);
  while (!content_type.empty()) {
    const std::string_view parameter = next_parameter(content_type);
    const std::size_t equals = std::min(parameter.find('='), parameter.size());
    if (to_lower(parameter.substr(0, equals)) != name) continue;
    std::string_view value = parameter.substr(std::min(equals + 1, parameter.size()));
    if (is_quoted_string(value)) value = value.substr(1, value.size() - 2);
    return to_lower(value);
  }
  return std::nullopt;
}

DataKind data_kind_of(std::string_view content_type) {
  const std::string type = media_type(content_type);
  if (type.ends_with("/json") || type.ends_with("+json")) return DataKind::json;
  const std::string charset = media_type_parameter(content_type, "charset").value_or("utf-8");
  const bool utf8 = charset == "utf-8" || charset == "us-ascii";  // a part of UTF-8
  const bool text = type.starts_with("text/") || type.ends_with("/xml") || type.ends_with("+xml");
  return text && utf8 ? DataKind::text : DataKind::binary;
}

void set_attribute(CloudEvent& event, const std::string& name, std::string value) {
  if (name == "id") {
    event.id = std::move(value);
  } else if (name == "source") {
    event.source = std::move(value);
  } else if (name == "type") {
    event.type = std::move(value);
  } else if (name == "subject") {
    event.subject = std::move(value);
  } else if (name == "datacontenttype") {
    event.datacontenttype = std::move(value);
  } else if (name == "dataschema") {
    event.dataschema = std::move(value);
  } else if (name == "time") {
    event.time = Timestamp::parse(value);
    if (!event.time) {
      throw EventError("time", "not an RFC 3339 time; write it like 2018-04-05T17:31:00Z");
    }
  } else if (name == "specversion") {
    if (value != "1.0") throw EventError("specversion", "not 1.0; send events of CloudEvents 1.0");
  } else {
    event.extensions.insert_or_assign(name, std::move(value));
  }
}

BinaryAttributes binary_attributes(const CloudEvent& event) {
  event.check();
  BinaryAttributes all;
  all.list = {
      {"specversion", "1.0"}, {"id", event.id}, {"source", event.source}, {"type", event.type}};
  if (event.subject) all.list.emplace_back("subject", *event.subject);
  if (event.time) all.list.emplace_back("time", event.time->str());
  if (event.dataschema) all.list.emplace_back("dataschema", *event.dataschema);
  for (const auto& [name, value] : event.extensions) {
    all.list.emplace_back(name, *event.extension(name));
  }
  if (event.datacontenttype) {
    all.content_type = *event.datacontenttype;
  } else if (event.data_kind == DataKind::json) {
    all.content_type = "application/json";  // only the JSON format may leave it out
  }
  return all;
}

}  // namespace twinbox
