#include "driver/sqlite/busy_wait.hpp"

#include <algorithm>
#include <thread>

namespace twinbox {

bool BusyWait::operator()(int tries) {
  using namespace std::chrono;
  const auto now = steady_clock::now();
  if (tries == 0) started_ = now;
  if (interrupted_ || now - started_ >= limit_) return false;
  // A commit takes about 0.2 ms, so the first waits are as short; later ones spare the processor,
  // yet end soon enough for an interrupt.
  const auto longest = std::min<std::int64_t>(4'000, std::int64_t{100} << std::min(tries, 6));
  const auto half = static_cast<std::uint64_t>(longest / 2);
  const auto chance = static_cast<std::int64_t>(environment_.random_bits() % (half + 1));
  std::this_thread::sleep_for(microseconds{longest / 2 + chance});
  return true;
}

}  // namespace twinbox
