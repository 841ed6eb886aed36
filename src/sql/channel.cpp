#include "sql/channel.hpp"

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

Channel channel_of(const BoxName& box) {
  const std::string name = box.schema + "." + box.table;
  return {short_name(name), lock_number(name)};
}

// A notification takes a lock of the whole server until its commit is on disk, so that commits that
// notify come one after the other. Of those that are under way at the same time two do, and the
// looks that follow a wake-up find what the others have written. Each of the two places is a lock
// that changes four times a second, in turn: a transaction that is going to tell and stays open
// silences nobody, and two of them not for long.
std::string wake_expression(const BoxName& box) {
  const Channel channel = channel_of(box);
  const auto place = [&](std::int64_t number, const char* shift) {
    return "pg_try_advisory_xact_lock('" + std::to_string(channel.telling_lock ^ number) +
           "'::bigint # (date_part('epoch', statement_timestamp()) * 4" + shift + ")::bigint)";
  };
  return "case when current_setting('twinbox.notify', true) = 'off' then 0 when " + place(0, "") +
         " or " + place(std::int64_t{1} << 40U, " + 0.5") + " then length(pg_notify(" +
         quote_text(channel.name) + ", '')::text) else 0 end";
}

}  // namespace twinbox
