#include "sql/notify_channel.hpp"

#include "core/sha256.hpp"

namespace twinbox {
namespace {

constexpr std::size_t longest_name = 63;  // what PostgreSQL allows

std::int64_t lock_number(const std::string& name) {
  const Sha256 hash = sha256("twinbox wake " + name);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) number = number << 8U | hash[i];
  return static_cast<std::int64_t>(number);
}

std::string short_name(const std::string& name) {
  if (name.size() <= longest_name) return name;
  static constexpr char digits[] = "0123456789abcdef";
  const Sha256 hash = sha256(name);
  std::string result = "twinbox ";
  for (std::size_t i = 0; i < 16; ++i) {
    result += digits[hash[i] >> 4U];
    result += digits[hash[i] & 15U];
  }
  return result;
}

}  // namespace

NotifyChannel channel_of(const BoxName& box) {
  const std::string name = box.schema + "." + box.table;
  const std::int64_t lock = lock_number(name);
  return {short_name(name), lock, lock ^ std::int64_t{1} << 40U};
}

}  // namespace twinbox
