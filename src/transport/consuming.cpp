#include "transport/consuming.hpp"

#include <chrono>
#include <condition_variable>
#include <optional>

#include "core/text.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {

void keep_consuming(const std::stop_token& stop, std::string_view source, Duration longest_rest,
                    const Environment& environment, SourceRecord& record,
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
        const std::string cut = cut_error(error.what());
        record.change([&](SourceStatus& status) { status.error = cut; });
        environment.write(LogLevel::warning, "broker_lost",
                          {{"source", source}, {"error", std::string_view{cut}}});
      }
    }
    record.change([](SourceStatus& status) { status.connected = false; });
    const auto held = connected_at ? Clock::now() - *connected_at : Clock::duration{};
    failures = failures_with(failures, std::chrono::floor<Duration>(held), longest_rest);
    std::mutex mutex;
    std::condition_variable_any nothing;
    std::unique_lock lock{mutex};
    nothing.wait_for(lock, stop, reconnect_delay(failures, longest_rest, environment),
                     [] { return false; });
  }
}

}  // namespace twinbox
