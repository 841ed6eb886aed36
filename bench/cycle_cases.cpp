#include <stdexcept>

#include "cases.hpp"
#include "peer.hpp"

namespace twinbox::bench {
namespace {

constexpr double cycle_target = 0.80;
constexpr double cost_target = 0.5;

struct Side {
  Side(Dialect dialect, Peer::Role role, int processes)
      : place(dialect, BoxKind::outbox), crew(role, processes, place.site()) {}

  double cycle(int count) {
    const double rate = crew.cycle(count);
    done += count;
    check();
    return rate;
  }

  /// What they say they have settled must be what the store says.
  void check() {
    std::int64_t outcomes = 0;
    place.database().in_transaction([&](Session& session) {
      session.execute("select count(*) from " + place.site().tables(BoxKind::outbox).outcome, {},
                      [&](const Row& row) { outcomes = row.integer(0); });
    });
    if (outcomes != done)
      throw std::runtime_error("the store has " + std::to_string(outcomes) + " outcomes of " +
                               std::to_string(done) + " messages");
  }

  BenchStore place;
  PeerGroup crew;
  std::int64_t done = 0;
};

std::function<double()> cycle_rate(const Repetitions& effort, Dialect dialect, Peer::Role role,
                                   int processes) {
  auto side = std::make_shared<Side>(dialect, role, processes);
  return [=] { return side->cycle(effort.backlog); };
}

/// Microseconds per message. A machine that others use as well changes it little.
std::function<double()> cycle_cost(const Repetitions& effort, Dialect dialect, Peer::Role role) {
  auto side = std::make_shared<Side>(dialect, role, 1);
  return [=] {
    const auto before = side->crew.processor_time();
    side->cycle(effort.backlog);
    const std::chrono::duration<double, std::micro> used = side->crew.processor_time() - before;
    return used.count() / effort.backlog;
  };
}

}  // namespace

std::vector<Case> cycle_cases(Dialect dialect) {
  using Role = Peer::Role;
  const auto question = [&](std::string name, int processes, Role ceiling) {
    return Case{
        std::move(name), dialect, "msg/s", cycle_target, false, [=](const Repetitions& effort) {
          return Comparison{cycle_rate(effort, dialect, Role::dispatcher, processes),
                            cycle_rate(effort, dialect, ceiling, processes)};
        }};
  };
  return {question("full cycle, 1 process", 1, Role::loop),
          question("full cycle, 2 processes", 2, Role::loop),
          question("full cycle, against two loops", 1, Role::two_loops),
          {"full cycle, processor time", dialect, "µs/msg", cost_target, true,
           [=](const Repetitions& effort) {
             return Comparison{cycle_cost(effort, dialect, Role::dispatcher),
                               cycle_cost(effort, dialect, Role::loop)};
           }}};
}

}  // namespace twinbox::bench
