#include <algorithm>
#include <random>
#include <thread>

#include "cases.hpp"
#include "peer.hpp"
#include "raw_wake.hpp"
#include "sender.hpp"
#include "twinbox/dispatcher.hpp"

namespace twinbox::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Send = std::function<Clock::time_point()>;

constexpr double wake_target = 0.4;
constexpr int warm_up = 5;

/// Microseconds from each commit to the start of its handler. Between two messages there is time
/// enough for all to be at rest again.
double latency(int count, double place, Bell& bell, const Send& send) {
  static std::minstd_rand chance{1};
  std::uniform_int_distribution<int> rest(15'000, 30'000);
  std::vector<double> samples;
  for (int i = 0; i < count + warm_up; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds{rest(chance)});
    const auto committed = send();
    const std::chrono::duration<double, std::micro> took = bell.wait() - committed;
    if (i >= warm_up) samples.push_back(took.count());
  }
  std::sort(samples.begin(), samples.end());
  return quantile(samples, place);
}

Handlers ringing(Bell& bell) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&bell](const Message&) { bell.ring(); });
  return handlers;
}

Send sending(Peer& peer) {
  return [&peer] {
    peer.tell("send");
    return Clock::time_point{Clock::duration{std::stoll(peer.hear())}};
  };
}

struct InProcess {
  InProcess(Dialect dialect, const std::string& owner)
      : place(dialect, BoxKind::outbox), bell(owner) {}

  double ours(int count, double quantile_place) {
    Sender sender(place.database(), place.site().options());
    Dispatcher dispatcher(sender.outbox(), ringing(bell));
    const std::jthread runner([&](const std::stop_token& stop) { dispatcher.run(stop); });
    return latency(count, quantile_place, bell, [&] { return sender.send(); });
  }

  double ceiling(int count, double quantile_place) {
    const auto waiter = wait_for_condition(place.site(), bell);
    const auto store = place.raw();
    const NewMessage message = some_messages(1, 256).front();
    return latency(count, quantile_place, bell, [&] {
      store->enqueue(message);
      const auto committed = Clock::now();
      waiter->tell();
      return committed;
    });
  }

  BenchStore place;
  Bell bell;
};

struct AcrossProcesses {
  AcrossProcesses(Dialect dialect, const std::string& owner)
      : place(dialect, BoxKind::outbox), sender(Peer::Role::sender, place.site()), bell(owner) {}
  AcrossProcesses(const AcrossProcesses&) = delete;
  AcrossProcesses& operator=(const AcrossProcesses&) = delete;
  virtual ~AcrossProcesses() = default;

  double ours(int count, double quantile_place) {
    Outbox outbox(place.database(), place.site().options());
    Dispatcher dispatcher(outbox, ringing(bell));
    const std::jthread runner([&](const std::stop_token& stop) { dispatcher.run(stop); });
    return latency(count, quantile_place, bell, sending(sender));
  }

  double ceiling(int count, double quantile_place) {
    const auto waiter = raw_waiter();
    return latency(count, quantile_place, bell, sending(sender));
  }

  virtual std::unique_ptr<RawWaiter> raw_waiter() { return wait_for_commits(place.site(), bell); }

  BenchStore place;
  Peer sender;
  Bell bell;
};

/// Beside a loop that keeps a processor busy, which nobody would wait with.
struct AcrossProcessesSpinning final : AcrossProcesses {
  using AcrossProcesses::AcrossProcesses;
  std::unique_ptr<RawWaiter> raw_waiter() override { return spin_for_commits(place.site(), bell); }
};

template <class Where>
Case question(const std::string& where, Dialect dialect, double place, const char* quantile_name,
              double target = wake_target) {
  return {"wake-up, " + where + ", " + quantile_name,
          dialect,
          "µs",
          target,
          true,
          [=](const Repetitions& effort) {
            auto one = std::make_shared<Where>(dialect, "the dispatcher");
            auto other = std::make_shared<Where>(dialect, "the raw loop");
            return Comparison{[=] { return one->ours(effort.wakes, place); },
                              [=] { return other->ceiling(effort.wakes, place); }};
          }};
}

}  // namespace

std::vector<Case> wake_cases(Dialect dialect) {
  std::vector<Case> cases{
      question<InProcess>("in process", dialect, 0.5, "p50"),
      question<InProcess>("in process", dialect, 0.99, "p99"),
      question<AcrossProcesses>("across processes", dialect, 0.5, "p50"),
      question<AcrossProcesses>("across processes", dialect, 0.99, "p99"),
  };
  if (dialect == Dialect::sqlite) {
    cases.push_back(question<AcrossProcessesSpinning>("across processes, against a spinning loop",
                                                      dialect, 0.5, "p50", no_target));
  }
  return cases;
}

}  // namespace twinbox::bench
