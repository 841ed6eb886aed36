#include "core/encoding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace twinbox {
namespace {

constexpr std::string_view standard_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view url_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::uint32_t byte_at(std::string_view bytes, std::size_t at) noexcept {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U;
}

std::string encode(std::string_view bytes, std::string_view alphabet, bool padded) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::uint32_t group =
        byte_at(bytes, at) << 16 | byte_at(bytes, at + 1) << 8 | byte_at(bytes, at + 2);
    const std::size_t digits = std::min<std::size_t>(bytes.size() - at, 3) + 1;
    for (std::size_t digit = 0; digit < 4; ++digit) {
      if (digit < digits) {
        out += alphabet[group >> (18 - 6 * digit) & 63U];
      } else if (padded) {
        out += '=';
      }
    }
  }
  return out;
}

// Takes digits without padding.
std::optional<std::string> decode(std::string_view digits, std::string_view alphabet) {
  if (digits.size() % 4 == 1) return {};
  std::string out;
  out.reserve(digits.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : digits) {
    const std::size_t value = alphabet.find(digit);
    if (value == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 255U);
    }
  }
  // Spare bits that are not zero would be a second spelling of the same bytes.
  if ((bits & ((1U << count) - 1U)) != 0) return {};
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) { return encode(bytes, standard_alphabet, true); }

std::string base64url(std::string_view bytes) { return encode(bytes, url_alphabet, false); }

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  }
  return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  return decode(text, standard_alphabet);
}

std::optional<std::string> decode_base64url(std::string_view text) {
  return decode(text, url_alphabet);
}

std::optional<std::string> decode_hex(std::string_view text) {
  if (text.size() % 2 != 0) return {};
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t at = 0; at < text.size(); at += 2) {
    const int high = hex_digit(text[at]);
    const int low = hex_digit(text[at + 1]);
    if (high < 0 || low < 0) return {};
    out += static_cast<char>(high << 4 | low);
  }
  return out;
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = ascii_lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

std::string percent_encode(std::string_view text, std::string_view others) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const auto stays = [&](char c) {
    return c > 0x20 && c < 0x7F && std::ranges::find(others, c) == others.end();
  };
  if (std::ranges::all_of(text, stays)) return std::string{text};
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (stays(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += digits[byte >> 4];
      out += digits[byte & 0xF];
    }
  }
  return out;
}

namespace {

/// Calls `malformed()` for a % without two digits; false from it ends the decoding.
template <class F>
bool decode_percent(std::string_view text, std::string& out, F malformed) {
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool has_two = text[at] == '%' && at + 2 < text.size();
    const int high = has_two ? hex_digit(text[at + 1]) : -1;
    const int low = high < 0 ? -1 : hex_digit(text[at + 2]);
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      at += 2;
    } else if (text[at] != '%' || malformed()) {
      out += text[at];
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  if (!decode_percent(text, out, [] { return false; })) return {};
  return out;
}

std::string percent_decode_lenient(std::string_view text) {
  std::string out;
  decode_percent(text, out, [] { return true; });
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), ascii_lower);
  return out;
}

}  // namespace twinbox
