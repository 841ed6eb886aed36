#include "transport/consuming.hpp"

#include <condition_variable>

#include "core/text.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {

void keep_consuming(const std::stop_token& stop, std::string_view source, Duration longest_rest,
                    const Environment& environment, SourceRecord& record,
                    const std::function<void(const std::function<void()>& connected)>& consume) {
  int failures = 0;
  while (!stop.stop_requested()) {
    try {
      consume([&] { failures = 0; });
    } catch (const std::exception& error) {
      if (!stop.stop_requested()) {
        const std::string cut = cut_error(error.what());
        record.change([&](SourceStatus& status) { status.error = cut; });
        environment.write(LogLevel::warning, "broker_lost",
                          {{"source", source}, {"error", std::string_view{cut}}});
      }
    }
    record.change([](SourceStatus& status) { status.connected = false; });
    std::mutex mutex;
    std::condition_variable_any nothing;
    std::unique_lock lock{mutex};
    nothing.wait_for(lock, stop, reconnect_delay(++failures, longest_rest, environment),
                     [] { return false; });
  }
}

}  // namespace twinbox
