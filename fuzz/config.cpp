// A whole configuration: it can be used, or every problem says where it is and what was expected.
#include "daemon/config/config.hpp"

#include "require.hpp"

using namespace twinbox;
using namespace twinbox::app;

namespace {

constexpr std::string_view hidden = "whsec_bm90IHRvIGJlIHNob3duIGluIGEgcHJvYmxlbQ==";

const Variables variables{{"SECRET", std::string{hidden}},
                          {"PLACE", "postgresql://me:word@localhost/app"},
                          {"TWINBOX_SERVER_LISTEN", "127.0.0.1:0"}};

std::optional<std::string> read_file(const std::string& path) {
  if (path == "secret") return std::string{hidden} + "\n";
  if (path == "empty") return "";
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  try {
    Config config = parse_config(text, "fuzz.toml", variables, read_file);
    require(!config.stores.empty(), "there is a store");
    for (const RouteConfig& route : config.routes) {
      require(config.find_sink(route.sink) != nullptr, "a route leads to a sink");
    }
    const Config again = parse_config(text, "fuzz.toml", variables, read_file);
    require(keep_restart_only(config, again).empty(), "the same text is the same configuration");
  } catch (const ConfigError& error) {
    require(!error.problems().empty(), "what is refused has a problem");
    for (const ConfigProblem& problem : error.problems()) {
      require(problem.where.starts_with("fuzz.toml") || problem.where.starts_with("environment"),
              "a problem has a place");
      require(!problem.key.empty() && !problem.text.empty(), "a problem has a key and a text");
      require(problem.text.find(hidden) == std::string::npos || text.find(hidden) != text.npos,
              "no problem shows a secret");
    }
  }
  return 0;
}
