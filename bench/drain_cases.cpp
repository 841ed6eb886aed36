#include <algorithm>

#include "backlog.hpp"
#include "cases.hpp"

namespace twinbox::bench {
namespace {

std::function<double()> drain_rate(const Repetitions& effort, Dialect dialect, Backlog::Side side,
                                   int batch, int workers, std::size_t size) {
  auto backlog = std::make_shared<Backlog>(dialect, side, workers, size);
  // Some batches for each worker, or the last one alone would decide.
  const int count = std::max(effort.backlog / (size > 1024 ? 4 : 1), 5 * batch * workers);
  return [=] {
    backlog->fill(count);
    const auto begin = std::chrono::steady_clock::now();
    backlog->drain(count, batch);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    return count / spent.count();
  };
}

}  // namespace

std::vector<Case> drain_cases(Dialect dialect) {
  std::vector<Case> cases;
  for (const std::size_t size : {256U, 4096U}) {
    for (const int batch : {50, 200, 1000}) {
      for (const int workers : {1, 2, 4}) {
        cases.push_back(
            {"claim+ack, batch " + std::to_string(batch) + ", " + std::to_string(workers) +
                 (workers == 1 ? " worker, " : " workers, ") + size_text(size),
             dialect, "msg/s", usual_target, false, [=](const Repetitions& effort) {
               const auto side = [&](Backlog::Side who) {
                 return drain_rate(effort, dialect, who, batch, workers, size);
               };
               return Comparison{side(Backlog::Side::ours), side(Backlog::Side::ceiling)};
             }});
      }
    }
  }
  return cases;
}

}  // namespace twinbox::bench
