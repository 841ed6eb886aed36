#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "cases.hpp"
#include "peer.hpp"

namespace twinbox::bench {
namespace {

constexpr double held_target = 0.95;
constexpr double offered_share = 0.6;  // of the clean maximum

/// A transaction of somebody else that has read something and then stays open: from then on no
/// dead row can be cleared away.
class HeldSnapshot {
 public:
  explicit HeldSnapshot(const StoreAddress& site)
      : database_(site.address), thread_([this, site] { hold(site); }) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return held_; });
  }
  ~HeldSnapshot() {
    const std::scoped_lock lock{mutex_};
    over_ = true;
    changed_.notify_all();
  }
  HeldSnapshot(const HeldSnapshot&) = delete;
  HeldSnapshot& operator=(const HeldSnapshot&) = delete;

 private:
  void hold(const StoreAddress& site) {
    database_.in_transaction([&](Session& session) {
      session.execute("set transaction isolation level repeatable read");
      session.execute("select 1 from " + site.tables(BoxKind::outbox).work + " limit 1");
      std::unique_lock lock{mutex_};
      held_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return over_; });
    });
  }

  Database database_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool over_ = false;
  std::jthread thread_;
};

struct Handled {
  double offered;  ///< messages per second
  double settled;
  double backlog;  ///< messages, at the end
};

Handled handle_beside_a_snapshot(const Repetitions& effort) {
  const BenchStore place(Dialect::postgres, BoxKind::outbox);
  PeerGroup crew(Peer::Role::dispatcher, 1, place.site());
  std::vector<double> clean;
  for (int i = 0; i < 4; ++i) clean.push_back(crew.cycle(effort.backlog));
  std::sort(clean.begin() + 1, clean.end());  // the first is for warming up
  const double rate = offered_share * clean[2];
  const auto seconds = static_cast<int>(effort.held.count());
  const HeldSnapshot snapshot(place.site());
  const auto settled = static_cast<double>(crew.offered(rate, seconds));
  return {rate, settled / seconds, std::max(rate * seconds - settled, 1.0)};
}

}  // namespace

std::vector<Case> held_cases(Dialect dialect) {
  if (dialect != Dialect::postgres) return {};
  // Both questions are answered by one run, which takes minutes.
  struct Run {
    std::optional<Handled> handled;
    const Handled& get(const Repetitions& effort) {
      if (!handled) handled = handle_beside_a_snapshot(effort);
      return *handled;
    }
  };
  const auto run = std::make_shared<Run>();
  return {{"held snapshot, handled of what is offered", dialect, "msg/s", held_target, false,
           [=](const Repetitions& effort) {
             return Comparison{[=] { return run->get(effort).settled; },
                               [=] { return run->get(effort).offered; }};
           },
           true},
          {"held snapshot, backlog after it", dialect, "msg", 1.0, true,
           [=](const Repetitions& effort) {
             return Comparison{[=] { return run->get(effort).backlog; },
                               [=] { return run->get(effort).offered; }};
           },
           true}};
}

}  // namespace twinbox::bench
