#include "dispatch/worker_heartbeat.hpp"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <utility>

#include "dispatch/then.hpp"
#include "queue/box.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Duration interval = 15s;
constexpr Duration share_of_a_store = 100ms;
constexpr Duration time_to_be_noticed = 20ms;

std::string process_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return host.data() + (":" + std::to_string(getpid()));
}

}  // namespace

DispatchObserver WorkerHeartbeat::observer(DispatchObserver next) {
  DispatchObserver observer = std::move(next);
  observer.handled = then(
      [this](std::string_view, const Message&, const Outcome& outcome, Duration) {
        if (outcome.kind() == Outcome::Kind::done) done_.fetch_add(1, std::memory_order_relaxed);
      },
      std::move(observer.handled));
  const auto count = [this](const auto&...) {
    failed_attempts_.fetch_add(1, std::memory_order_relaxed);
  };
  observer.failed = then(count, std::move(observer.failed));
  observer.dead = then(count, std::move(observer.dead));
  return observer;
}

void WorkerHeartbeat::send(WorkQueue& queue, int stores, bool in_haste) {
  const Clock::time_point now = Clock::now();
  if (now < next_ || (in_haste && told_ && now < next_ + interval)) return;
  const Duration pause = std::max(interval, stores * share_of_a_store);
  next_ = now + pause;
  try {
    // Two of them may be late: the first because of haste.
    Workers{queue}.heartbeat(owner_, process_name(), TWINBOX_VERSION, done_, failed_attempts_,
                             announcement_, 2 * (pause + interval));
    told_ = true;
    failed_ = false;
    if (queue.database().dialect() != Dialect::sqlite) return;
    wrote_from_ = now;
    wrote_until_ = Clock::now() + time_to_be_noticed;
  } catch (const std::exception& error) {
    const auto* failure = dynamic_cast<const DatabaseError*>(&error);
    const bool stopped = failure != nullptr && failure->kind() == DatabaseError::Kind::cancelled;
    if (stopped || std::exchange(failed_, true)) return;
    box_of(queue).log(LogLevel::warning, "heartbeat_error",
                      {{"error", std::string_view{error.what()}}});
  }
}

void WorkerHeartbeat::leave(WorkQueue& queue) {
  next_ = {};
  if (!std::exchange(told_, false)) return;
  try {
    Workers{queue}.leave(owner_);
  } catch (const std::exception& error) {
    box_of(queue).log(LogLevel::warning, "heartbeat_error",
                      {{"error", std::string_view{error.what()}}});
  }
}

}  // namespace twinbox
