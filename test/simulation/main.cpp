// Fresh worlds for a while; a failing one prints its seed.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string_view>
#include <unistd.h>

#include "simulation/world.hpp"

namespace {

using namespace twinbox::simulation;
using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    "usage: simulation [--seconds N] [--seed N] [--dispatch] [--file]\n"
    "  --seconds N   fresh worlds for so long (default 10), half of the time with dispatchers\n"
    "  --seed N      this one world\n"
    "  --dispatch    worlds with whole dispatchers only\n"
    "  --file        with --seed: on a file instead of in memory\n";

struct Arguments {
  long seconds = 10;
  std::uint64_t seed = 0;
  bool one = false;
  bool on_file = false;
  bool dispatch = false;
};

bool parse(int count, char** words, Arguments& arguments) {
  const auto number = [](const char* word, auto& value) {
    const char* end = word + std::strlen(word);
    const auto [at, error] = std::from_chars(word, end, value);
    return error == std::errc{} && at == end;
  };
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--file") {
      arguments.on_file = true;
    } else if (word == "--dispatch") {
      arguments.dispatch = true;
    } else if (word == "--seconds" && i + 1 < count) {
      if (!number(words[++i], arguments.seconds)) return false;
    } else if (word == "--seed" && i + 1 < count) {
      arguments.one = true;
      if (!number(words[++i], arguments.seed)) return false;
    } else {
      return false;
    }
  }
  return true;
}

WorldReport run(const WorldOptions& options, bool dispatch) {
  return dispatch ? run_dispatch_world(options) : run_world(options);
}

/// True when every promise was kept.
bool show(const WorldOptions& options, bool dispatch, const WorldReport& report) {
  if (report.violation.empty()) return true;
  std::printf("\nFAILED: %s\nthe last steps:\n", report.violation.c_str());
  for (const std::string& step : report.steps) std::printf("  %s\n", step.c_str());
  std::printf("to repeat: simulation --seed %llu%s%s\n",
              static_cast<unsigned long long>(options.seed), dispatch ? " --dispatch" : "",
              options.on_file ? " --file" : "");
  return false;
}

struct Totals {
  std::uint64_t worlds = 0, faults = 0, crashes = 0, claims = 0, calls = 0, stale = 0, done = 0,
                dead = 0;
  double seconds = 0;

  void add(const WorldReport& report, double took) {
    ++worlds;
    seconds += took;
    calls += report.calls;
    stale += report.stale;
    faults += report.faults;
    crashes += report.crashes;
    claims += report.claims;
    done += report.done;
    dead += report.dead;
  }
  void print(const char* what, const char* end) const {
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf("%llu worlds of %s, %.0f per second; %llu faults, %llu crashes, %llu claims",
                number(worlds), what, static_cast<double>(worlds) / std::max(seconds, 0.001),
                number(faults), number(crashes), number(claims));
    if (calls > 0) std::printf(", %llu calls, %llu stale settles", number(calls), number(stale));
    std::printf("; %llu done, %llu dead%s", number(done), number(dead), end);
    std::fflush(stdout);
  }
};

constexpr const char* of_stores = "stores";
constexpr const char* of_dispatchers = "dispatchers";

/// True when every promise was kept.
bool run_and_add(const WorldOptions& options, bool dispatch, Totals& totals) {
  const auto begin = Clock::now();
  const WorldReport report = run(options, dispatch);
  totals.add(report, std::chrono::duration<double>(Clock::now() - begin).count());
  return show(options, dispatch, report);
}

int run_one(const Arguments& arguments) {
  Totals totals;
  if (!run_and_add({.seed = arguments.seed, .on_file = arguments.on_file}, arguments.dispatch,
                   totals))
    return 1;
  totals.print(arguments.dispatch ? of_dispatchers : of_stores, "\n");
  return 0;
}

int run_many(const Arguments& arguments) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  std::random_device entropy;
  const std::uint64_t first = (std::uint64_t{entropy()} << 32) | entropy();
  std::printf("first seed %llu\n", static_cast<unsigned long long>(first));
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  Totals stores;
  Totals dispatchers;
  double shown = 0;
  while (elapsed() < static_cast<double>(arguments.seconds)) {
    // Whoever has had less time is next.
    const bool dispatch = arguments.dispatch || dispatchers.seconds < stores.seconds;
    Totals& totals = dispatch ? dispatchers : stores;
    if (!run_and_add({.seed = first + totals.worlds, .on_file = totals.worlds % 4 == 3}, dispatch,
                     totals))
      return 1;
    if (terminal && elapsed() - shown > 0.5) {
      shown = elapsed();
      std::printf("\r%.0f s: %llu worlds", shown,
                  static_cast<unsigned long long>(stores.worlds + dispatchers.worlds));
      std::fflush(stdout);
    }
  }
  if (terminal) std::printf("\r");
  if (stores.worlds > 0) stores.print(of_stores, "\n");
  if (dispatchers.worlds > 0) dispatchers.print(of_dispatchers, "\n");
  return 0;
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  if (!parse(count, words, arguments)) {
    std::fputs(usage, stderr);
    return 2;
  }
  return arguments.one ? run_one(arguments) : run_many(arguments);
}
