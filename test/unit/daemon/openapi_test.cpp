#include "daemon/http/openapi.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>

#include <gtest/gtest.h>

#include "daemon/dispatch/dispatchers.hpp"
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
  OperationRunner operation_runner{{}};
  Dispatchers dispatchers{stores, {}, [](BoxKind, DispatchObserver next) { return next; }};
  Throughput throughput;
  Dashboard dashboard{stores, throughput, dispatchers, {}};
  Sessions sessions;
  WriteMonitor writes{stores, {}};
  TimeLimits limits;
  const Service service{config,
                        {.stores = stores,
                         .operation_runner = operation_runner,
                         .dispatchers = dispatchers,
                         .dashboard = dashboard,
                         .sessions = sessions,
                         .writes = writes,
                         .limits = limits,
                         .environment = {},
                         .spans = {},
                         .observer = [] { return DispatchObserver{}; },
                         .metrics = [] { return std::string{}; }},
                        {}};
  Endpoints served = service.router().endpoints();
  std::ranges::sort(served);
  EXPECT_EQ(served, described());
}

}  // namespace
}  // namespace twinbox::app
