// Which addresses a request may go to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sockaddr;

namespace twinbox {

/// An IPv4 address is kept as its mapped IPv6 address (::ffff:a.b.c.d).
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  /// Empty unless `text` is an address of one of the two families; no names, no zones.
  static std::optional<IpAddress> parse(std::string_view text);
  /// Empty for another family.
  static std::optional<IpAddress> of(const sockaddr& address) noexcept;
  [[nodiscard]] std::string str() const;
  [[nodiscard]] bool is_v4() const noexcept;
};

/// A network: an address and how many of its bits count.
struct Network {
  IpAddress address;
  int bits;  ///< of 128

  /// `10.0.0.0/8`, `127.0.0.1`, `fd00::/8`. Throws std::invalid_argument.
  static Network parse(std::string_view text);
  [[nodiscard]] bool contains(const IpAddress& other) const noexcept;
};

/// Why an address is not a public one: "loopback", "private" …; empty when it is. What carries an
/// IPv4 address inside (mapped, compatible, NAT64, 6to4) is judged by that one.
std::string_view non_public_reason(const IpAddress& address) noexcept;

/// What a client may connect to.
class AddressFilter {
 public:
  /// Texts as Network::parse takes them, or `any`. Throws std::invalid_argument.
  explicit AddressFilter(const std::vector<std::string>& allow);
  /// Why it is refused; empty when it is not.
  [[nodiscard]] std::string_view refusal(const IpAddress& address) const noexcept;

 private:
  bool any_ = false;
  std::vector<Network> allowed_;
};

}  // namespace twinbox
