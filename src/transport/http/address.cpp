#include "transport/http/address.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>

namespace twinbox {
namespace {

constexpr std::array<std::uint8_t, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

IpAddress mapped(const std::uint8_t* four) noexcept {
  IpAddress address;
  std::copy(mapped_prefix.begin(), mapped_prefix.end(), address.bytes.begin());
  std::copy_n(four, 4, address.bytes.begin() + 12);
  return address;
}

struct Range {
  const char* network;
  std::string_view name;
};

// From the IANA registries of special-purpose addresses: what is not globally reachable. 2001::/23
// holds Teredo, ORCHID and benchmarking; ::ffff:0:0:0/96 are translated IPv4 addresses (SIIT).
constexpr Range special_ranges[] = {
    {"0.0.0.0/8", "unspecified"},     {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "private"},     {"127.0.0.0/8", "loopback"},
    {"169.254.0.0/16", "link-local"}, {"172.16.0.0/12", "private"},
    {"192.0.0.0/24", "reserved"},     {"192.0.2.0/24", "reserved"},
    {"192.88.99.0/24", "reserved"},   {"192.168.0.0/16", "private"},
    {"198.18.0.0/15", "private"},     {"198.51.100.0/24", "reserved"},
    {"203.0.113.0/24", "reserved"},   {"224.0.0.0/4", "multicast"},
    {"240.0.0.0/4", "reserved"},      {"::/128", "unspecified"},
    {"::1/128", "loopback"},          {"::ffff:0:0:0/96", "reserved"},
    {"64:ff9b:1::/48", "private"},    {"100::/64", "reserved"},
    {"100:0:0:1::/64", "reserved"},   {"2001::/23", "reserved"},
    {"2001:db8::/32", "reserved"},    {"3fff::/20", "reserved"},
    {"5f00::/16", "reserved"},        {"fc00::/7", "private"},
    {"fe80::/10", "link-local"},      {"fec0::/10", "private"},
    {"ff00::/8", "multicast"},
};

struct Special {
  Network network;
  std::string_view name;
};

const std::vector<Special>& specials() {
  static const std::vector<Special> all = [] {
    std::vector<Special> found;
    for (const Range& range : special_ranges) {
      found.push_back({Network::parse(range.network), range.name});
    }
    return found;
  }();
  return all;
}

/// The IPv4 address that an IPv6 address leads to.
std::optional<IpAddress> carried(const IpAddress& address) noexcept {
  static const Network compatible = Network::parse("::/96");
  static const Network nat64 = Network::parse("64:ff9b::/96");
  static const Network six_to_four = Network::parse("2002::/16");
  const std::uint8_t* bytes = address.bytes.data();
  if (nat64.contains(address)) return mapped(bytes + 12);
  if (six_to_four.contains(address)) return mapped(bytes + 2);
  if (compatible.contains(address)) return mapped(bytes + 12);
  return {};
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string copy{text};
  std::array<std::uint8_t, 4> four{};
  if (inet_pton(AF_INET, copy.c_str(), four.data()) == 1) return mapped(four.data());
  IpAddress address;
  if (inet_pton(AF_INET6, copy.c_str(), address.bytes.data()) == 1) return address;
  return {};
}

std::optional<IpAddress> IpAddress::of(const sockaddr& address) noexcept {
  IpAddress found;
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    std::array<std::uint8_t, 4> four{};
    std::memcpy(four.data(), &v4.sin_addr, four.size());
    return mapped(four.data());
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    std::memcpy(found.bytes.data(), &v6.sin6_addr, found.bytes.size());
    return found;
  }
  return {};
}

bool IpAddress::is_v4() const noexcept {
  return std::equal(mapped_prefix.begin(), mapped_prefix.end(), bytes.begin());
}

std::string IpAddress::str() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_v4()) {
    inet_ntop(AF_INET, bytes.data() + 12, text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
  }
  return text.data();
}

Network Network::parse(std::string_view text) {
  const auto refuse = [&]() -> Network {
    throw std::invalid_argument("network '" + std::string{text} +
                                "': expected an address like 127.0.0.1 or ::1, or a network like "
                                "10.0.0.0/8 or fd00::/8");
  };
  const std::size_t slash = text.find('/');
  const std::optional<IpAddress> address = IpAddress::parse(text.substr(0, slash));
  if (!address) return refuse();
  // What is written as IPv4 counts its bits within the mapped address.
  const bool v4 = text.substr(0, slash).find(':') == std::string_view::npos;
  const int width = v4 ? 32 : 128;
  int bits = width;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (error != std::errc{} || end != digits.data() + digits.size() || bits < 0 || bits > width) {
      return refuse();
    }
  }
  return {*address, v4 ? bits + 96 : bits};
}

bool Network::contains(const IpAddress& other) const noexcept {
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(address.bytes.begin(), address.bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                  other.bytes.begin())) {
    return false;
  }
  const int rest = bits % 8;
  return rest == 0 || ((address.bytes[whole] ^ other.bytes[whole]) >> (8 - rest)) == 0;
}

std::string_view non_public_reason(const IpAddress& address) noexcept {
  for (const Special& special : specials()) {
    if (special.network.contains(address)) return special.name;
  }
  if (address.is_v4()) return {};
  const std::optional<IpAddress> inner = carried(address);
  return inner ? non_public_reason(*inner) : std::string_view{};
}

AddressFilter::AddressFilter(const std::vector<std::string>& allow) {
  specials();  // made here, where it may throw
  for (const std::string& text : allow) {
    if (text == "any") {
      any_ = true;
    } else {
      allowed_.push_back(Network::parse(text));
    }
  }
}

std::string_view AddressFilter::refusal(const IpAddress& address) const noexcept {
  if (any_) return {};
  for (const Network& network : allowed_) {
    if (network.contains(address)) return {};
  }
  return non_public_reason(address);
}

}  // namespace twinbox
