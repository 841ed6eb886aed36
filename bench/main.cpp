// twinbox_bench: how near the store comes to hand-written loops.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <string_view>
#include <unistd.h>

#include "cases.hpp"
#include "contestant.hpp"
#include "report.hpp"

namespace {

using namespace twinbox::bench;
using twinbox::Dialect;

constexpr const char* usage = R"(usage: twinbox_bench [store] [--json] [--quick] [--svg FILE] [TEXT]

  --json      one array of objects: name, backend, unit, value, ceiling, ratio, spread, target
  --quick     a short run
  --svg FILE  also writes a plot
  TEXT        only questions whose backend and name contain it, such as 'sqlite claim'
)";

struct Options {
  bool as_json = false;
  Effort effort = {};
  std::string svg = {};
  std::string text = {};
};

/// Empty: the arguments cannot be understood.
std::optional<Options> read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--json") {
      options.as_json = true;
    } else if (word == "--quick") {
      options.effort = Effort::quick();
    } else if (word == "--svg" && i + 1 < count) {
      options.svg = words[++i];
    } else if (word.starts_with("-") || !options.text.empty()) {
      return std::nullopt;
    } else if (i > 1 || word != "store") {
      options.text = word;
    }
  }
  return options;
}

std::vector<Case> chosen_cases(const std::string& text) {
  std::vector<Case> chosen;
  for (const Dialect dialect : {Dialect::sqlite, Dialect::postgres}) {
    for (const auto make : {intake_cases, group_commit_cases, drain_cases, cost_cases}) {
      for (Case& question : make(dialect)) {
        const std::string full = std::string{to_string(dialect)} + " " + question.name;
        if (full.find(text) != full.npos) chosen.push_back(std::move(question));
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

std::vector<Figure> measure_all(const std::vector<Case>& cases, const Effort& effort) {
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
  const std::vector<Figure> figures = measure_all(chosen_cases(options.text), options.effort);
  std::cout << (options.as_json ? json(figures) : table(figures));
  if (!options.svg.empty()) {
    std::ofstream file(options.svg);
    file << plot(figures);
    if (!file.flush()) throw std::runtime_error("cannot write " + options.svg);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const auto options = read_options(count, words);
  if (!options) {
    std::cerr << usage;
    return 2;
  }
  try {
    return run(*options);
  } catch (const std::exception& error) {
    std::cerr << "twinbox_bench: " << error.what() << '\n';
    return 1;
  }
}
