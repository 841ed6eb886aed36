#include "daemon/openapi.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>

#include <gtest/gtest.h>

#include "daemon/dispatching.hpp"
#include "daemon/service.hpp"

namespace twinbox::app {
namespace {

using Endpoints = std::vector<std::pair<std::string, std::string>>;

Endpoints described() {
  const boost::json::value document =
      boost::json::parse(boost::json::string_view{openapi_json.data(), openapi_json.size()});
  Endpoints list;
  for (const auto& path : document.at("paths").as_object()) {
    for (const auto& method : path.value().as_object()) {
      std::string name{method.key()};
      std::ranges::transform(name, name.begin(), [](char c) { return static_cast<char>(c - 32); });
      list.emplace_back(std::move(name), std::string{path.key()});
    }
  }
  std::ranges::sort(list);
  return list;
}

TEST(OpenApi, describes_every_endpoint_and_no_other) {
  const Config config = parse_config("[store.main]\nurl = \"sqlite::memory:\"\n", "t", {});
  const Stores stores{config, {}};
  OperationMemory operations;
  Dispatching dispatching{stores, {}, [](BoxKind, DispatchObserver next) { return next; }};
  const Pulse pulse;
  Dashboard dashboard{stores, pulse, dispatching, {}};
  const Service service{config,
                        {.stores = stores,
                         .operations = operations,
                         .dispatching = dispatching,
                         .dashboard = dashboard,
                         .environment = {},
                         .spans = {},
                         .observer = [] { return DispatchObserver{}; },
                         .metrics = [] { return std::string{}; }},
                        {}};
  Endpoints served = service.router().endpoints();
  std::ranges::sort(served);
  EXPECT_EQ(served, described());
}

std::string complaint(std::string_view text, const Variables& variables = {}) {
  const std::string store = "[store.main]\nurl = \"sqlite::memory:\"\n";
  try {
    check_config(parse_config(store + std::string{text}, "t", variables));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(CheckConfig, finds_what_reading_alone_cannot_know) {
  EXPECT_EQ(complaint("[sink.a]\ntype = \"log\"\n[[route]]\nsink = \"a\"\n"), "");
  EXPECT_NE(complaint("[webhook.shop]\nscheme = \"standard_webhooks\"\nsecrets = [\"env:S\"]\n",
                      {{"S", "no secret of theirs"}})
                .find("shop"),
            std::string::npos);
  EXPECT_NE(complaint("[sink.a]\ntype = \"http\"\nurl = \"http://x\"\nallow = [\"there\"]\n"
                      "[[route]]\nsink = \"a\"\n")
                .find("sink.a: "),
            std::string::npos);
  EXPECT_NE(complaint("[sink.a]\ntype = \"log\"\n[[route]]\nname = \"r\"\nsink = \"a\"\n"
                      "[[route]]\nname = \"r\"\ntopic = \"b\"\nsink = \"a\"\n")
                .find("r"),
            std::string::npos);
}

}  // namespace
}  // namespace twinbox::app
