#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "daemon/config/config.hpp"

namespace twinbox::app {
namespace {

using Keys = std::set<std::string>;

std::string page() {
  std::ifstream stream{std::string{TWINBOX_SOURCE_DIR} + "/docs/reference/configuration.md"};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

/// The first cell of each row, under the heading of its section.
Keys documented() {
  Keys keys;
  std::istringstream lines{page()};
  const std::regex heading{R"(## `\[+([^\]]+)\]+`)"};
  const std::regex name{"`([a-z_]+)`"};
  std::string section;
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, found, heading)) {
      section = found[1];
      if (line.find("[[") != std::string::npos) section += ".<name>";
    } else if (!section.empty() && line.starts_with("| `")) {
      const std::string cell = line.substr(0, line.find('|', 1));
      for (std::sregex_iterator key{cell.begin(), cell.end(), name}, end; key != end; ++key) {
        keys.insert(section + "." + (*key)[1].str());
      }
    }
  }
  return keys;
}

TEST(ConfigurationPage, tells_of_every_key_and_of_no_other) {
  const std::vector<std::string> keys = config_keys();
  EXPECT_EQ(documented(), Keys(keys.begin(), keys.end()));
}

TEST(ConfigurationPage, the_example_can_be_used) {
  const Config config =
      load_config(std::string{TWINBOX_SOURCE_DIR} + "/packaging/twinbox.toml", {});
  EXPECT_EQ(config.routes.size(), 3u);
}

}  // namespace
}  // namespace twinbox::app
