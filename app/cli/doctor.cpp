// The command doctor: finds problems and shows how to fix them.
#include <algorithm>
#include <thread>

#include "cli/help.hpp"
#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include "daemon/config/config_safety.hpp"
#include "daemon/config/secrets.hpp"
#include "daemon/dispatch/brokers.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/handler.hpp>
#include <twinbox/health.hpp>

namespace twinbox::cli {
namespace {

namespace json = boost::json;
using Level = Finding::Level;

struct DoctorOptions {
  std::string interval = "2s";
  bool all = false;
};

/// A finding and its box; empty: the whole store.
struct BoxFinding {
  std::string box;
  Finding finding;
};

void add(std::vector<BoxFinding>& all, const std::string& box, std::vector<Finding> findings) {
  for (Finding& finding : findings) all.push_back({box, std::move(finding)});
}

/// The topics that the daemon delivers from such a box: by routes, and retries of inline events.
std::vector<TopicPattern> routed(const app::Config& config, BoxKind kind) {
  std::vector<TopicPattern> patterns;
  for (const app::RouteConfig& route : config.routes) {
    if (route.box == kind) patterns.emplace_back(route.topic);
  }
  for (const app::EventConfig& event : config.events) {
    if (kind == BoxKind::inbox && event.inline_mode)
      patterns.emplace_back(EventName{event.name, event.version}.type());
  }
  return patterns;
}

constexpr std::size_t max_topics = 20;  // listed by name

/// Topics with open deliveries that match no route of the configuration.
std::vector<Finding> topics_without_route(const app::Config& config, BoxKind kind,
                                          const Counts& counts) {
  const std::vector<TopicPattern> patterns = routed(config, kind);
  std::vector<Finding> findings;
  for (const auto& [name, one] : counts.by_topic) {
    const std::string& topic = name;  // Clang 14 lets no lambda capture a structured binding
    const bool taken = std::ranges::any_of(
        patterns, [&](const TopicPattern& pattern) { return pattern.matches(topic); });
    if (taken || one.open() == 0) continue;
    if (findings.size() == max_topics) {
      findings.push_back({"handler", Level::warning, "more topics without a route",
                          "run twinbox status --topics to list them"});
      break;
    }
    findings.push_back(
        {"handler", Level::warning,
         counted(one.open(), "delivery", "deliveries") + " of topic " + topic + " without a route",
         "add a [[route]] with box = \"" + std::string{to_string(kind)} + "\" whose topic is \"" +
             topic +
             "\" or a pattern that matches it, or discard the deliveries with twinbox discard"});
  }
  return findings;
}

/// A sink holds a connection while it writes into an inbox of the same store.
std::vector<Finding> few_connections(const app::Config& config, const OpenStore& store) {
  const app::StoreConfig* configured = config.find_store(store.name());
  if (configured == nullptr || configured->url.starts_with("sqlite:")) return {};
  const bool writes = std::ranges::any_of(config.routes, [&](const app::RouteConfig& route) {
    const app::SinkConfig* sink = config.find_sink(route.sink);
    return sink != nullptr && sink->kind == app::SinkConfig::Kind::inbox &&
           (sink->store.empty() || sink->store == configured->name);
  });
  if (!writes || config.dispatch.workers < configured->connections) return {};
  return {
      {"workers", Level::warning,
       std::to_string(config.dispatch.workers) +
           " workers can write into an inbox of this store at the same time, over " +
           counted(configured->connections, "connection") + ", which leaves none to renew leases",
       "set connections in [store." + configured->name + "] to more than workers in [dispatch]"}};
}

/// Counts open deliveries twice, `between` apart, to detect growth.
void examine_backlog(const CommonOptions& common, OpenStore& store,
                     const std::vector<BoxKind>& kinds, Duration between,
                     std::vector<BoxFinding>& all) {
  std::vector<std::pair<OpenBox, Counts>> before;
  for (const OpenBox& box : store.boxes()) {
    if (std::find(kinds.begin(), kinds.end(), box.kind) != kinds.end())
      before.emplace_back(box, Admin{box.queue}.counts());
  }
  std::this_thread::sleep_for(between);
  const app::Config config = chosen_config(common);
  for (auto& [box, first] : before) {
    const Counts second = Admin{box.queue}.counts();
    all.push_back({box.name(), compare_backlog(first.all, second.all, between)});
    // A box without routes may be handled by another program.
    const bool ours = !routed(config, box.kind).empty() ||
                      (!config.routes.empty() && Workers{box.queue}.list().empty());
    if (ours) add(all, box.name(), topics_without_route(config, box.kind, second));
  }
}

std::vector<BoxFinding> examine(const CommonOptions& common, OpenStore& store, Duration between) {
  std::vector<BoxFinding> all;
  add(all, "", examine_database(store.database()));
  if (all.front().finding.level == Level::error && all.front().finding.check == "reach") return all;
  std::vector<BoxKind> usable;
  for (const BoxKind kind : store.kinds()) {
    std::vector<Finding> findings = examine_box(store.database(), kind, store.options(kind));
    const Finding& schema = findings.front();
    const bool named = common.outbox || common.inbox;
    // A store may have only one box: a missing box is a finding only if both are missing.
    if (!named && Schema{store.database(), kind, store.options(kind)}.check().missing()) continue;
    if (schema.level != Level::error) usable.push_back(kind);
    add(all, std::string{to_string(kind)}, std::move(findings));
  }
  const bool broken = std::any_of(all.begin(), all.end(), [](const BoxFinding& one) {
    return one.finding.check == "schema" && one.finding.level == Level::error;
  });
  if (usable.empty() && !broken) {
    all.push_back({"",
                   {"schema", Level::error, "the store has neither an outbox nor an inbox",
                    "twinbox schema deploy"}});
  }
  if (!usable.empty() && !broken) examine_backlog(common, store, usable, between, all);
  return all;
}

constexpr int text_column = 21;

/// `text` wrapped and indented on a terminal, unchanged in a pipe.
std::string body(const Screen& screen, const std::string& text) {
  const int width = screen.look().width;
  if (width <= text_column + 20) return text + "\n";
  return wrapped(text, width, text_column).substr(text_column);
}

void print_finding(const Screen& screen, const BoxFinding& one) {
  const TextStyle& look = screen.look();
  const auto& [box, finding] = one;
  const Style style = finding.level == Level::ok        ? Style::good
                      : finding.level == Level::warning ? Style::warn
                                                        : Style::bad;
  const char* mark = finding.level == Level::ok ? "✓" : finding.level == Level::warning ? "!" : "✗";
  screen.print(look.paint(style, mark) + " " + fit(box, 7) +
               look.paint(Style::strong, fit(finding.check, 12)) +
               body(screen, printable(finding.found)));
  if (finding.fix.empty()) return;
  screen.print(std::string(9, ' ') + look.paint(Style::faint, fit("fix:", 12)) +
               body(screen, printable_lines(finding.fix)));
}

/// Files that other users may read or change, and secrets that can be guessed.
std::vector<Finding> unsafe_settings(const app::Config& config) {
  std::vector<Finding> findings;
  const auto add_all = [&](const std::vector<app::ConfigProblem>& problems, Level level) {
    for (const app::ConfigProblem& one : problems) {
      const std::size_t end = one.text.rfind("; ");
      findings.push_back({"safety", level, one.key + ": " + one.text.substr(0, end),
                          end == std::string::npos ? "" : one.text.substr(end + 2)});
    }
  };
  add_all(app::unsafe_files(config), Level::error);
  add_all(app::config_warnings(config), Level::warning);
  return findings;
}

int doctor(const CommonOptions& common, const DoctorOptions& options, const Screen& screen) {
  const Duration between = parse_duration("--interval", options.interval);
  OpenStore store(common);
  std::vector<BoxFinding> all = examine(common, store, between);
  const app::Config config = chosen_config(common);
  add(all, "", few_connections(config, store));
  add(all, "", app::examine_brokers(config));
  add(all, "", unsafe_settings(config));
  for (BoxFinding& one : all) {
    one.finding.found = app::without_secrets(one.finding.found);
    one.finding.fix = app::without_secrets(one.finding.fix);
  }
  const auto wrong = std::count_if(
      all.begin(), all.end(), [](const BoxFinding& one) { return one.finding.level != Level::ok; });
  if (common.json) {
    json::array findings;
    for (const auto& [box, finding] : all) {
      findings.push_back(
          {{"box", box.empty() ? json::value(nullptr) : json::value(box)},
           {"check", finding.check},
           {"level", to_string(finding.level)},
           {"found", finding.found},
           {"fix", finding.fix.empty() ? json::value(nullptr) : json::value(finding.fix)}});
    }
    print_json(screen, {{"findings", std::move(findings)}});
  } else {
    for (const BoxFinding& one : all) print_finding(screen, one);
    screen.print(wrong == 0 ? "\nno problems found\n" : "\n" + counted(wrong, "finding") + "\n");
  }
  return wrong == 0 ? exit_ok : exit_negative;
}

}  // namespace

Verb doctor_verb(CommonOptions& common) {
  auto options = std::make_shared<DoctorOptions>();
  return {
      .name = "doctor",
      .group = "Check",
      .summary = "Find problems of a store and show how to fix them",
      .text =
          "Checks the connection, the tables with their functions and indexes, the clocks, "
          "partition keys blocked by dead letters or distant due times, the durability of commits, "
          "transactions that hold back vacuum, the database file and its disk, and the backlog, "
          "which is measured twice. With a configuration it also checks for topics without a "
          "route, and for unsafe settings of brokers, files and secrets. Exit code 1 means that "
          "there is a finding.",
      .options = with(
          {{"--interval", "DURATION",
            "Time between the two measurements of the backlog (default: 2s)", &options->interval}},
          {box_options(common), store_options(common), answer_options(common)}),
      .examples = {{"twinbox doctor", "on ./twinbox.db"},
                   {"twinbox doctor --config /etc/twinbox.toml --store main",
                    "with the daemon's configuration"}},
      .run = [&common, options](const Screen& screen) { return doctor(common, *options, screen); }};
}

}  // namespace twinbox::cli
