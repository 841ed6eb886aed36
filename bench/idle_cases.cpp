#include <algorithm>
#include <thread>

#include "cases.hpp"
#include "peer.hpp"
#include "twinbox/dispatcher.hpp"

namespace twinbox::bench {
namespace {

using namespace std::chrono_literals;

constexpr double allowed = 0.5;  // percent of a core
/// The looks that follow a start are behind it then.
constexpr auto calm_down = 600ms;

/// Percent of a core that this process uses while its dispatcher waits.
double idle_share(BenchStore& place, std::chrono::seconds time) {
  Outbox outbox(place.database(), place.site().options());
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) {});
  Dispatcher dispatcher(outbox, std::move(handlers));
  const std::jthread runner([&](const std::stop_token& stop) { dispatcher.run(stop); });
  std::this_thread::sleep_for(calm_down);
  const auto before = processor_time();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(time);
  const std::chrono::duration<double> used = processor_time() - before;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return std::max(100 * used / spent, 0.001);
}

}  // namespace

std::vector<Case> idle_cases(Dialect dialect) {
  return {
      {"idle dispatcher, share of a core", dialect, "%", 1.0, true, [=](const Repetitions& effort) {
         auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
         return Comparison{[=] { return idle_share(*place, effort.idle); }, [] { return allowed; }};
       }}};
}

}  // namespace twinbox::bench
