#include "dispatch/presence.hpp"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <utility>

#include "queue/box.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Duration interval = 15s;
constexpr Duration share_of_a_store = 100ms;

std::string process_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return host.data() + (":" + std::to_string(getpid()));
}

}  // namespace

void Presence::tell(WorkQueue& queue, int stores, bool in_haste) {
  const Clock::time_point now = Clock::now();
  if (now < next_ || (in_haste && told_ && now < next_ + interval)) return;
  next_ = now + std::max(interval, stores * share_of_a_store);
  try {
    Workers{queue}.tell(owner_, process_name(), TWINBOX_VERSION);
    told_ = true;
    failed_ = false;
  } catch (const std::exception& error) {
    const auto* trouble = dynamic_cast<const DatabaseError*>(&error);
    const bool stopped = trouble != nullptr && trouble->kind() == DatabaseError::Kind::cancelled;
    if (stopped || std::exchange(failed_, true)) return;
    queue.box().log(LogLevel::warning, "presence_error",
                    {{"error", std::string_view{error.what()}}});
  }
}

void Presence::leave(WorkQueue& queue) {
  next_ = {};
  if (!std::exchange(told_, false)) return;
  try {
    Workers{queue}.leave(owner_);
  } catch (const std::exception& error) {
    queue.box().log(LogLevel::warning, "presence_error",
                    {{"error", std::string_view{error.what()}}});
  }
}

}  // namespace twinbox
