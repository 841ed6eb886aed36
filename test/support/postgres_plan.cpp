#include "support/postgres_plan.hpp"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

std::string log_since(std::streamoff begin) {
  std::ifstream log(test_setting("TWINBOX_TEST_POSTGRES_LOG"), std::ios::binary);
  log.seekg(begin);
  std::ostringstream text;
  text << log.rdbuf();
  return text.str();
}

std::streamoff log_size() {
  std::ifstream log(test_setting("TWINBOX_TEST_POSTGRES_LOG"), std::ios::binary | std::ios::ate);
  return log.tellg();
}

long sum_of(const std::string& line, const std::regex& numbers) {
  long sum = 0;
  for (std::sregex_iterator i(line.begin(), line.end(), numbers), end; i != end; ++i) {
    sum += std::stol((*i)[1]);
  }
  return sum;
}

void read_line(ExecutedPlan& plan, const std::string& line) {
  static const std::regex node(R"(^\s*(?:->\s*)?(.*?)\s+\(cost=)");
  static const std::regex given(R"(rows=(\d+) loops=(\d+)\))");
  static const std::regex removed(R"(Rows Removed by [^:]*: (\d+))");
  static const std::regex pages(R"((?:hit|read)=(\d+))");
  std::smatch found;
  if (std::regex_search(line, found, node)) plan.nodes.push_back(found[1]);
  if (std::regex_search(line, found, given)) {
    plan.most_rows = std::max(plan.most_rows, std::stol(found[1]) * std::stol(found[2]));
  }
  if (std::regex_search(line, found, removed)) {
    plan.most_rows = std::max(plan.most_rows, std::stol(found[1]));
  }
  if (plan.buffers == 0 && line.find("Buffers: shared") != std::string::npos) {
    plan.buffers = sum_of(line, pages);
  }
}

/// The log's entry begins with a line that ends in `plan:`; its own lines begin with a tab.
std::vector<ExecutedPlan> read_plans(const std::string& log) {
  std::vector<ExecutedPlan> plans;
  std::istringstream lines(log);
  bool inside = false;
  bool in_query = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('\t')) {
      inside = line.ends_with("plan:");
      in_query = inside;
      if (inside) plans.emplace_back();
    } else if (inside) {
      ExecutedPlan& plan = plans.back();
      in_query = in_query && line.find("(cost=") == std::string::npos;
      (in_query ? plan.query : plan.text) += line + "\n";
      if (!in_query) read_line(plan, line);
    }
  }
  return plans;
}

}  // namespace

std::string explained(const std::string& address) {
  std::string options;
  for (const char* setting : {"log_min_duration", "log_nested_statements", "log_analyze",
                              "log_buffers", "log_verbose", "log_timing"}) {
    const std::string_view name = setting;
    const char* value = name == "log_min_duration"                      ? "0"
                        : name == "log_verbose" || name == "log_timing" ? "off"
                                                                        : "on";
    options += "%20-c%20auto_explain." + std::string{name} + "%3D" + value;
  }
  return with_setting(address, "options=" + options.substr(3));
}

std::vector<ExecutedPlan> plans_of(const std::string& word, const std::function<void()>& body) {
  const std::streamoff begin = log_size();
  body();
  std::vector<ExecutedPlan> plans = read_plans(log_since(begin));
  std::erase_if(
      plans, [&](const ExecutedPlan& plan) { return plan.query.find(word) == std::string::npos; });
  return plans;
}

}  // namespace twinbox::test
