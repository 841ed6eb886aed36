// How a figure is made: both sides take turns, neighbours are compared, and the median counts.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "twinbox/session.hpp"

namespace twinbox::bench {

/// How long and how often.
struct Repetitions {
  int repeats = 31;
  std::chrono::milliseconds slice{80};  ///< of one repeat that is bound by time
  int backlog = 10'000;                 ///< messages of one repeat that drains

  /// For all repeats of one question; after three of them it is enough.
  std::chrono::milliseconds budget{16'000};

  int wakes = 100;                 ///< messages of one repeat that wakes somebody for each
  std::chrono::seconds idle{6};    ///< of one repeat that waits for nothing
  std::chrono::seconds held{120};  ///< beside a transaction that stays open

  static Repetitions quick() {
    using namespace std::chrono_literals;
    return {3, 50ms, 2'000, 1'000ms, 30, 2s, 10s};
  }
};

/// Two sides of one question; each call makes one measurement.
struct Comparison {
  std::function<double()> ours;
  std::function<double()> ceiling;
};

/// For information only.
inline constexpr double no_target = 0;

struct Case {
  std::string name;
  Dialect dialect;
  std::string unit;
  double target;  ///< for the ratio
  bool less_is_better;
  /// Opens its stores, which live as long as the duel.
  std::function<Comparison(const Repetitions&)> open;
  bool once = false;  ///< one long measurement instead of many short ones
};

/// The form of every benchmark's result. `ratio` is better when higher, whatever the unit.
struct Figure {
  std::string name;
  std::string backend;
  std::string unit;
  double value;
  double ceiling;
  double ratio;   ///< the median of what neighbours in time had: a machine's speed changes
  double spread;  ///< of our own repeats: the middle half's width over the median
  double target;

  [[nodiscard]] bool reached() const noexcept { return ratio >= target; }
};

Figure measure(const Case& question, const Repetitions& effort);

/// Of sorted numbers, between neighbours where there is none at the place.
double quantile(const std::vector<double>& sorted, double place);

/// Messages per second of what `body` says it has done, call after call, until the slice is over.
/// `prepare` is not counted.
double rate(std::chrono::milliseconds slice, const std::function<std::size_t()>& body,
            const std::function<void()>& prepare = {});

}  // namespace twinbox::bench
