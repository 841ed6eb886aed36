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
    "usage: simulation [--seconds N] [--seed N] [--file]\n"
    "  --seconds N   fresh worlds for so long (default 10)\n"
    "  --seed N      this one world\n"
    "  --file        with --seed: on a file instead of in memory\n";

struct Arguments {
  long seconds = 10;
  std::uint64_t seed = 0;
  bool one = false;
  bool on_file = false;
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

/// True when every promise was kept.
bool show(const WorldOptions& options, const WorldReport& report) {
  if (report.violation.empty()) return true;
  std::printf("\nFAILED: %s\nthe last steps:\n", report.violation.c_str());
  for (const std::string& step : report.steps) std::printf("  %s\n", step.c_str());
  std::printf("to repeat: simulation --seed %llu%s\n",
              static_cast<unsigned long long>(options.seed), options.on_file ? " --file" : "");
  return false;
}

struct Totals {
  std::uint64_t worlds = 0, faults = 0, crashes = 0, claims = 0, done = 0, dead = 0;

  void add(const WorldReport& report) {
    ++worlds;
    faults += report.faults;
    crashes += report.crashes;
    claims += report.claims;
    done += report.done;
    dead += report.dead;
  }
  void print(double seconds, const char* end) const {
    std::printf(
        "%llu worlds, %.0f per second; %llu faults, %llu crashes, %llu claims; %llu done, %llu "
        "dead%s",
        static_cast<unsigned long long>(worlds),
        static_cast<double>(worlds) / std::max(seconds, 0.001),
        static_cast<unsigned long long>(faults), static_cast<unsigned long long>(crashes),
        static_cast<unsigned long long>(claims), static_cast<unsigned long long>(done),
        static_cast<unsigned long long>(dead), end);
    std::fflush(stdout);
  }
};

int run_one(const Arguments& arguments) {
  const WorldOptions options{.seed = arguments.seed, .on_file = arguments.on_file};
  const WorldReport report = run_world(options);
  if (!show(options, report)) return 1;
  Totals totals;
  totals.add(report);
  totals.print(1, "\n");
  return 0;
}

int run_many(const Arguments& arguments) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  std::random_device entropy;
  const std::uint64_t first = (std::uint64_t{entropy()} << 32) | entropy();
  std::printf("first seed %llu\n", static_cast<unsigned long long>(first));
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  Totals totals;
  double shown = 0;
  while (elapsed() < static_cast<double>(arguments.seconds)) {
    const WorldOptions options{.seed = first + totals.worlds, .on_file = totals.worlds % 4 == 3};
    const WorldReport report = run_world(options);
    if (!show(options, report)) return 1;
    totals.add(report);
    if (terminal && elapsed() - shown > 0.5) {
      shown = elapsed();
      std::printf("\r");
      totals.print(elapsed(), "");
    }
  }
  if (terminal) std::printf("\r");
  totals.print(elapsed(), "\n");
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
