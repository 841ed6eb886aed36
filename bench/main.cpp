// twinbox_bench: how near the store and the dispatcher come to hand-written loops, and the daemon
// to the store.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <string_view>
#include <unistd.h>

#include "candidate.hpp"
#include "cases.hpp"
#include "peer.hpp"
#include "report.hpp"

namespace {

using namespace twinbox::bench;
using twinbox::Dialect;

constexpr const char* usage =
    R"(usage: twinbox_bench [store|dispatch|daemon|broker] [--json] [--quick] [--held N] [--svg FILE] [TEXT]

  --json      one array of objects: name, backend, unit, value, ceiling, ratio, spread, target
  --quick     a short run
  --held N    seconds of work beside a transaction that stays open (120; 10 when quick)
  --svg FILE  also writes a plot
  TEXT        only questions whose backend and name contain it, such as 'sqlite claim'
)";

struct Options {
  std::string subject = "store";
  bool as_json = false;
  Repetitions effort = {};
  std::string svg = {};
  std::string text = {};
};

/// Empty: the arguments cannot be understood.
std::optional<Options> read_options(int count, char** words) {
  Options options;
  std::optional<int> held;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--json") {
      options.as_json = true;
    } else if (word == "--quick") {
      options.effort = Repetitions::quick();
    } else if (word == "--svg" && i + 1 < count) {
      options.svg = words[++i];
    } else if (word == "--held" && i + 1 < count) {
      held = std::atoi(words[++i]);
      if (*held < 1) return std::nullopt;
    } else if (word.starts_with("-") || !options.text.empty()) {
      return std::nullopt;
    } else if (i == 1 &&
               (word == "store" || word == "dispatch" || word == "daemon" || word == "broker")) {
      options.subject = word;
    } else {
      options.text = word;
    }
  }
  if (held) options.effort.held = std::chrono::seconds{*held};
  return options;
}

std::vector<Case> chosen_cases(const Options& options) {
  using Make = std::vector<Case> (*)(Dialect);
  std::vector<Make> makers{intake_cases, group_commit_cases, drain_cases, cost_cases};
  if (options.subject == "dispatch") {
    makers = {cycle_cases, wake_cases, idle_cases, notify_cases, held_cases};
  } else if (options.subject == "daemon") {
    makers = {daemon_cases};
  } else if (options.subject == "broker") {
    makers = {broker_cases};
  }
  std::vector<Case> chosen;
  for (const Dialect dialect : {Dialect::sqlite, Dialect::postgres}) {
    for (const Make make : makers) {
      for (Case& question : make(dialect)) {
        const std::string full = std::string{to_string(dialect)} + " " + question.name;
        if (full.find(options.text) != full.npos) chosen.push_back(std::move(question));
      }
    }
  }
  return chosen;
}

void show_progress(std::size_t done, std::size_t all, std::string_view what) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K[%zu/%zu] %.*s", done, all, static_cast<int>(what.size()),
               what.data());
  if (done == all) std::fputs("\r\033[K", stderr);
}

std::vector<Figure> measure_all(const std::vector<Case>& cases, const Repetitions& effort) {
  std::vector<Figure> figures;
  for (const Case& question : cases) {
    show_progress(figures.size(), cases.size(),
                  std::string{to_string(question.dialect)} + " " + question.name);
    figures.push_back(measure(question, effort));
  }
  show_progress(cases.size(), cases.size(), "");
  return figures;
}

int run(const Options& options) {
  const std::vector<Figure> figures = measure_all(chosen_cases(options), options.effort);
  std::cout << (options.as_json ? json(figures) : table(figures));
  if (!options.svg.empty()) {
    std::ofstream file(options.svg);
    const char* title = options.subject == "dispatch" ? "The dispatcher against hand-written loops"
                        : options.subject == "daemon" ? "The daemon against its own store"
                        : options.subject == "broker" ? "The relay against a plain publisher"
                                                      : "Twinbox against hand-written loops";
    file << plot(figures, title);
    if (!file.flush()) throw std::runtime_error("cannot write " + options.svg);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (is_peer(count, words)) return run_peer(words);
    const auto options = read_options(count, words);
    if (!options) {
      std::cerr << usage;
      return 2;
    }
    return run(*options);
  } catch (const std::exception& error) {
    std::cerr << "twinbox_bench: " << error.what() << '\n';
    return 1;
  }
}
