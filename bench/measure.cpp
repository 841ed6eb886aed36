#include "measure.hpp"

#include <algorithm>
#include <cmath>

namespace twinbox::bench {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

}  // namespace

double quantile(const std::vector<double>& sorted, double place) {
  const double at = place * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(at));
  const auto high = static_cast<std::size_t>(std::ceil(at));
  return sorted[low] + (sorted[high] - sorted[low]) * (at - std::floor(at));
}

Figure measure(const Case& question, const Repetitions& effort) {
  std::vector<double> ours;
  std::vector<double> ceiling;
  const Comparison duel = question.open(effort);
  if (!question.once) {
    duel.ceiling();  // warm-up: caches, prepared statements
    duel.ours();
  }
  const int repeats = question.once ? 1 : effort.repeats;
  const auto end = steady_clock::now() + effort.budget;
  for (int i = 0; i < repeats && (i < 3 || steady_clock::now() < end); ++i) {
    if (i % 2 == 0) ceiling.push_back(duel.ceiling());
    ours.push_back(duel.ours());
    if (i % 2 != 0) ceiling.push_back(duel.ceiling());
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ratios.push_back(question.less_is_better ? ceiling[i] / ours[i] : ours[i] / ceiling[i]);
  }
  for (auto* numbers : {&ours, &ceiling, &ratios}) std::sort(numbers->begin(), numbers->end());
  const double value = quantile(ours, 0.5);
  return {.name = question.name,
          .backend = std::string{to_string(question.dialect)},
          .unit = question.unit,
          .value = value,
          .ceiling = quantile(ceiling, 0.5),
          .ratio = quantile(ratios, 0.5),
          .spread = (quantile(ours, 0.75) - quantile(ours, 0.25)) / value,
          .target = question.target};
}

double rate(std::chrono::milliseconds slice, const std::function<std::size_t()>& body,
            const std::function<void()>& prepare) {
  duration<double> spent{};
  std::size_t done = 0;
  while (spent < slice) {
    if (prepare) prepare();
    const auto begin = steady_clock::now();
    done += body();
    spent += steady_clock::now() - begin;
  }
  return static_cast<double>(done) / spent.count();
}

}  // namespace twinbox::bench
