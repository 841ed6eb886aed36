#include <atomic>
#include <chrono>
#include <stdexcept>

#include "twinbox/environment.hpp"
#include "twinbox/ids.hpp"

namespace twinbox {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr std::string_view digits = "0123456789abcdef";

bool is_dash_position(std::size_t index) noexcept {
  return index == 8 || index == 13 || index == 18 || index == 23;
}

int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Uuid from_halves(std::uint64_t high, std::uint64_t low, unsigned version) noexcept {
  high = (high & ~std::uint64_t{0xF000}) | (std::uint64_t{version} << 12);
  low = (low & ~(std::uint64_t{3} << 62)) | (std::uint64_t{2} << 62);
  Uuid uuid;
  for (std::size_t i = 0; i < 8; ++i) {
    uuid.bytes[i] = static_cast<std::uint8_t>(high >> (56 - 8 * i));
    uuid.bytes[8 + i] = static_cast<std::uint8_t>(low >> (56 - 8 * i));
  }
  return uuid;
}

std::uint64_t since_epoch(milliseconds time) noexcept {
  return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
}

/// Milliseconds and a 12-bit counter in one number that only grows, so that ids made by one process
/// sort in the order they were made, also when its clock stands still or steps back.
std::uint64_t next_tick(std::uint64_t now, std::uint64_t chance) noexcept {
  static std::atomic<std::uint64_t> last = 0;
  // A start in the lower half leaves the upper half of the counter to the same millisecond.
  const std::uint64_t fresh = (now << 12) | (chance & 0x7FF);
  std::uint64_t before = last.load(std::memory_order_relaxed);
  std::uint64_t tick = 0;
  do {
    tick = before >> 12 >= now ? before + 1 : fresh;
  } while (!last.compare_exchange_weak(before, tick, std::memory_order_relaxed));
  return tick;
}

Uuid make_v7(const Environment& environment) {
  const std::uint64_t chance = environment.random_bits();
  std::uint64_t tick = 0;
  if (const auto now = environment.now()) {
    tick = (since_epoch(duration_cast<milliseconds>(now->time_since_epoch())) << 12) |
           (environment.random_bits() & 0xFFF);
  } else {
    const auto time = std::chrono::system_clock::now().time_since_epoch();
    tick = next_tick(since_epoch(duration_cast<milliseconds>(time)), environment.random_bits());
  }
  return from_halves((tick >> 12 << 16) | (tick & 0xFFF), chance, 7);
}

}  // namespace

Uuid Uuid::parse(std::string_view text) {
  const auto refuse = [] {
    throw std::invalid_argument("uuid: 8-4-4-4-12 hexadecimal digits are needed");
  };
  if (text.size() != 36) refuse();
  Uuid uuid;
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_dash_position(i)) {
      if (text[i] != '-') refuse();
      continue;
    }
    const int value = digit_value(text[i]);
    if (value < 0) refuse();
    const int shift = nibble % 2 == 0 ? 4 : 0;
    uuid.bytes[nibble / 2] |= static_cast<std::uint8_t>(value << shift);
    ++nibble;
  }
  return uuid;
}

std::string Uuid::str() const {
  std::string text;
  text.reserve(36);
  for (const std::uint8_t byte : bytes) {
    if (is_dash_position(text.size())) text.push_back('-');
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 0xF]);
  }
  return text;
}

MessageId MessageId::make(const Environment& environment) {
  return MessageId{make_v7(environment).str(), Unchecked{}};
}

OwnerToken::OwnerToken(Uuid uuid) : uuid_(uuid) {
  if (uuid.is_zero()) {
    throw std::invalid_argument("owner token: all zero, make one with OwnerToken::make");
  }
}

OwnerToken OwnerToken::make(const Environment& environment) {
  const std::uint64_t high = environment.random_bits();
  return OwnerToken{from_halves(high, environment.random_bits(), 4)};
}

}  // namespace twinbox
