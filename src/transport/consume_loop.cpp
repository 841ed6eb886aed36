#include "transport/consume_loop.hpp"

#include <chrono>
#include <condition_variable>
#include <optional>

#include "core/text.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {

void consume_with_reconnect(
    const std::stop_token& stop, std::string_view source, Duration max_delay,
    const Environment& environment, SharedSourceStatus& shared_status,
    const std::function<void(const std::function<void()>& connected)>& consume) {
  using Clock = std::chrono::steady_clock;
  int failures = 0;
  while (!stop.stop_requested()) {
    std::optional<Clock::time_point> connected_at;
    try {
      consume([&] {
        if (!connected_at) connected_at = Clock::now();
      });
    } catch (const std::exception& error) {
      if (!stop.stop_requested()) {
        const std::string cut = truncate_error(error.what());
        shared_status.update([&](SourceStatus& status) { status.error = cut; });
        environment.write(LogLevel::warning, "broker_lost",
                          {{"source", source}, {"error", std::string_view{cut}}});
      }
    }
    shared_status.update([](SourceStatus& status) { status.connected = false; });
    const auto connected_for = connected_at ? Clock::now() - *connected_at : Clock::duration{};
    failures = count_failures(failures, std::chrono::floor<Duration>(connected_for), max_delay);
    std::mutex mutex;
    std::condition_variable_any nothing;
    std::unique_lock lock{mutex};
    nothing.wait_for(lock, stop, reconnect_delay(failures, max_delay, environment),
                     [] { return false; });
  }
}

}  // namespace twinbox
