#include "daemon/config/config.hpp"

#include <algorithm>
#include <charconv>
#include <toml++/toml.h>
#include <unistd.h>

#include "daemon/config/config_reader.hpp"
#include "daemon/config/config_sections.hpp"
#include "daemon/config/owned_sources.hpp"
#include "daemon/config/secrets.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::app {
namespace {

std::string list_of(const std::vector<ConfigProblem>& problems) {
  std::string text;
  for (const ConfigProblem& problem : problems) {
    text += (text.empty() ? "" : "\n") + problem.str();
  }
  return text;
}

/// In file order, problems of the environment last.
std::vector<ConfigProblem> by_line(std::vector<ConfigProblem> problems) {
  const auto line = [](const ConfigProblem& problem) {
    std::uint64_t number = UINT64_MAX;
    const std::size_t begin = problem.where.rfind(':') + 1;  // 0 without a line
    const char* text = problem.where.data();
    std::from_chars(text + begin, text + problem.where.size(), number);
    return number;
  };
  std::stable_sort(problems.begin(), problems.end(),
                   [&](const auto& a, const auto& b) { return line(a) < line(b); });
  return problems;
}

std::string names_no_store(const Config& config) {
  std::string names;
  for (const StoreConfig& store : config.stores) {
    const bool last = &store == &config.stores.back();
    names += (names.empty() ? "\"" : last ? " or \"" : ", \"") + store.name + "\"";
  }
  return "is missing, and there are several stores; add store = " + names;
}

/// The references to an inbox that `config` does not serve.
std::vector<ConfigProblem> leads_nowhere(const Config& config) {
  std::vector<ConfigProblem> problems;
  const auto need = [&](const std::string& path, const std::string& store) {
    const auto serves_it = [&](const StoreConfig& one) {
      return (store.empty() || one.name == store) && serves(one.boxes, BoxKind::inbox);
    };
    const bool ambiguous = store.empty() && config.stores.size() > 1;
    if (!ambiguous && std::ranges::any_of(config.stores, serves_it)) return;
    const std::string key = path + ".store";
    const auto location = config.key_locations.find(key);
    problems.push_back(
        {location == config.key_locations.end() ? config.file.string() : location->second, key,
         ambiguous ? names_no_store(config)
                   : (store.empty() ? "an inbox" : "the inbox of [store." + store + "]") +
                         " is only served after a restart; restart the daemon"});
  };
  for (const SinkConfig& sink : config.sinks) {
    if (sink.kind == SinkConfig::Kind::inbox) need("sink." + sink.name, sink.store);
  }
  for (const SourceConfig& source : config.sources) need("source." + source.name, source.store);
  for (const WebhookConfig& webhook : config.webhooks) {
    need("webhook." + webhook.name, webhook.store);
  }
  for (const EventConfig& event : config.events) need("event." + event.name, event.store);
  for (const SubscriptionConfig& subscription : config.subscriptions) {
    need("subscription." + subscription.name, subscription.store);
  }
  return problems;
}

/// Builds a Config from the tables of one document.
class Builder {
 public:
  Builder(ConfigSource& source, const toml::table& document)
      : source_(source), document_(document) {}

  Config build() {
    read_server(section("server"), config_.server);
    read_limit(section("limit"), config_.limit);
    read_log(section("log"), config_.log);
    read_access(section("access"), config_.access);
    read_dispatch(section("dispatch"), config_.dispatch);
    read_intake(section("intake"), config_.intake);
    read_tracing(section("tracing"), config_.tracing);
    read_health(section("health"), config_.health);
    read_dashboard(section("dashboard"), config_.dashboard);
    named_tables();
    listed_tables();
    refuse_leftovers();
    return std::move(config_);
  }

 private:
  TableReader section(std::string_view name) { return {source_, table(name), std::string{name}}; }

  const toml::table* table(std::string_view name) {
    sections_.emplace_back(name);
    const toml::node* node = document_.get(name);
    if (node != nullptr && !node->is_table()) {
      source_.add(source_.where(node), std::string{name},
                  "expected a table: [" + std::string{name} + "]");
    }
    return node == nullptr ? nullptr : node->as_table();
  }

  /// Calls `read(reader, name, table)` for each table [section.name].
  template <class Read>
  void each_named(std::string_view name, Read read) {
    const toml::table* tables = table(name);
    if (tables == nullptr) return;
    for (const auto& [key, node] : *tables) {
      const std::string path = std::string{name} + "." + std::string{key.str()};
      if (!node.is_table()) {
        source_.add(source_.where(&node), path,
                    "expected a named table: [" + std::string{name} + ".name]");
        continue;
      }
      read(TableReader{source_, node.as_table(), path}, std::string{key.str()}, node.as_table());
    }
  }

  void named_tables() {
    each_named("store", [&](TableReader reader, std::string name, const toml::table* source) {
      config_.stores.push_back({.name = std::move(name)});
      read_store(std::move(reader), config_.stores.back(), source);
    });
    if (config_.stores.empty()) {
      config_.stores.push_back({});
      read_store({source_, nullptr, "store.main"}, config_.stores.back(), nullptr);
    }
    each_named("retry", [&](TableReader reader, std::string name, const toml::table*) {
      read_retry(std::move(reader), config_.retries[std::move(name)]);
    });
    each_named("source", [&](TableReader reader, std::string name, const toml::table* source) {
      config_.sources.push_back({.name = std::move(name)});
      read_source(reader, config_.sources.back(), source);
      need_inbox(reader, config_.sources.back().store, true);
    });
    each_named("webhook", [&](TableReader reader, std::string name, const toml::table*) {
      config_.webhooks.push_back({.name = std::move(name), .scheme = {}});
      read_webhook(reader, config_.webhooks.back());
      need_inbox(reader, config_.webhooks.back().store, true);
    });
    const SourceNames owned = owned_sources(config_);
    each_named("sink", [&](TableReader reader, std::string name, const toml::table* source) {
      config_.sinks.push_back({.name = std::move(name)});
      read_sink(reader, config_.sinks.back(), source);
      const bool to_inbox = config_.sinks.back().kind == SinkConfig::Kind::inbox;
      need_inbox(reader, config_.sinks.back().store, to_inbox);
      if (to_inbox) refuse_owned(reader, config_.sinks.back(), owned);
    });
  }

  /// Messages without a source would look like messages of its owner.
  static void refuse_owned(TableReader& reader, const SinkConfig& sink, const SourceNames& owned) {
    const std::string source = inbox_source(sink);
    if (!owned.contains(source)) return;
    reader.refuse("source", "\"" + source +
                                "\" belongs to a webhook endpoint or a broker, and only that may "
                                "use it; set source to another name");
  }

  /// Calls `read(reader, table)` for each entry of [[section]]; the path contains its name.
  template <class Read>
  void each_listed(std::string_view name, Read read) {
    sections_.emplace_back(name);
    const toml::node* node = document_.get(name);
    if (node == nullptr) return;
    if (!node->is_array_of_tables()) {
      source_.add(source_.where(node), std::string{name},
                  "expected a list of tables: [[" + std::string{name} + "]]");
      return;
    }
    for (const toml::node& entry : *node->as_array()) {
      const toml::table* fields = entry.as_table();
      const auto* own = fields->get_as<std::string>("name");
      const std::string key = own == nullptr ? "<name>" : own->get();
      TableReader reader{source_, fields, std::string{name} + "." + key};
      read(reader, fields);
    }
  }

  void listed_tables() {
    each_listed("route", [&](TableReader& reader, const toml::table*) {
      RouteConfig route;
      read_route(reader, route);
      if (route.name.empty()) route.name = route.topic;
      if (!config_.retries.contains(route.retry) && !route.retry.empty()) {
        reader.refuse("retry", "unknown [retry." + route.retry + "]");
      }
      need_sink(reader, route.sink);
      validate_route(reader, "topic", route.box, route.name, route.topic);
      config_.routes.push_back(std::move(route));
    });
    each_listed("event", [&](TableReader& reader, const toml::table*) {
      EventConfig event;
      read_event(reader, event);
      if (!event.sink.empty()) need_sink(reader, event.sink);
      const SinkConfig* sink = config_.find_sink(event.sink);
      if (sink != nullptr && sink->kind == SinkConfig::Kind::inbox) {
        reader.refuse("sink",
                      "a sink of type inbox cannot be called inline; set mode = \"accept\", or use "
                      "another sink");
      } else if (sink != nullptr && sink->is_broker()) {
        reader.refuse("sink",
                      "a sink of a broker cannot be called inline; set mode = \"accept\", and add "
                      "a [[route]] from the inbox to the broker");
      }
      need_inbox(reader, event.store, true);
      if (!event.name.empty()) validate_event(reader, event);
      config_.events.push_back(std::move(event));
    });
    each_listed("subscription", [&](TableReader& reader, const toml::table*) {
      SubscriptionConfig subscription;
      read_subscription(reader, subscription);
      need_inbox(reader, subscription.store, true);
      refuse_second(reader, "route", "subscription", subscription.route);
      config_.subscriptions.push_back(std::move(subscription));
    });
  }

  /// Refuses a duplicate name.
  void refuse_second(TableReader& reader, std::string_view key, const std::string& kind,
                     const std::string& name) {
    const auto [first, fresh] = first_.emplace(kind + " " + name, reader.where());
    if (!fresh)
      reader.refuse(
          key, "\"" + name + "\" is defined twice; the first definition is at " + first->second);
  }

  /// The dispatcher of a box accepts each pattern once; routes also retry inline events.
  void validate_route(TableReader& reader, std::string_view key, BoxKind box,
                      const std::string& name, const std::string& topic) {
    std::optional<TopicPattern> pattern;
    reader.attempt(key, [&] { pattern.emplace(topic); });
    if (!pattern) return;
    const MessageHandler no_handler = [](const Message&, std::stop_token) {
      return Outcome::done();
    };
    reader.attempt("name", [&] { const Routes made{{{name, *pattern, no_handler}}}; });
    const std::string kind{to_string(box)};
    if (name != topic) refuse_second(reader, "name", "route of the " + kind, name);
    refuse_second(reader, key, "topic of the " + kind, topic);
  }

  void validate_event(TableReader& reader, const EventConfig& event) {
    reader.attempt("name", [&] {
      const std::string type = EventName{event.name, event.version}.type();
      refuse_second(reader, "name", "event", type);
      if (event.inline_mode) {
        validate_route(reader, "name", BoxKind::inbox, "event " + type, type);
      }
    });
  }

  void need_sink(TableReader& reader, const std::string& sink) {
    if (sink.empty()) {
      reader.refuse("sink", "is missing; name the sink that gets the messages");
    } else if (config_.find_sink(sink) == nullptr) {
      std::vector<std::string> names;
      for (const SinkConfig& known : config_.sinks) names.push_back(known.name);
      const std::string meant = nearest(sink, names);
      reader.refuse("sink", "unknown [sink." + sink + "]" +
                                (meant.empty() ? "" : "; did you mean \"" + meant + "\"?"));
    }
  }

  /// `really`: the section uses the inbox; otherwise it only names the store, which must exist.
  void need_inbox(TableReader& reader, const std::string& store, bool really) {
    const StoreConfig* named = config_.find_store(store);
    if (!store.empty() && named == nullptr) {
      reader.refuse("store", "unknown [store." + store + "]");
    } else if (really && store.empty() && config_.stores.size() > 1) {
      reader.refuse("store", names_no_store(config_));
    } else if (really && named != nullptr && !serves(named->boxes, BoxKind::inbox)) {
      reader.refuse("store",
                    "[store." + store + "] serves no inbox; set boxes = \"both\" or \"inbox\"");
    } else if (really && store.empty() && std::ranges::none_of(config_.stores, [](const auto& one) {
                 return serves(one.boxes, BoxKind::inbox);
               })) {
      reader.refuse("store",
                    "no [store.…] serves an inbox; set boxes = \"both\" or \"inbox\" in a store");
    }
  }

  void refuse_leftovers() {
    for (const auto& [key, node] : document_) {
      const std::string name{key.str()};
      if (std::ranges::find(sections_, name) != sections_.end()) continue;
      const std::string meant = nearest(name, sections_);
      source_.add(source_.where(&node), name,
                  "unknown section" + (meant.empty() ? "" : "; did you mean \"" + meant + "\"?"));
    }
    for (const auto& variable : source_.variables) {
      const std::string& name = variable.first;  // Clang 14 lets no lambda capture a binding
      const bool ours = std::ranges::any_of(sections_, [&](const std::string& section) {
        return name.starts_with(variable_name(section) + "_");
      });
      if (!ours || source_.used.contains(name)) continue;
      std::vector<std::string> known;
      for (const std::string& key : source_.keys) known.push_back(variable_name(key));
      const std::string meant = nearest(name, known);
      source_.add("environment", name,
                  "matches no key of this configuration" +
                      (meant.empty() ? "" : "; did you mean " + meant + "?"));
    }
  }

  ConfigSource& source_;
  const toml::table& document_;
  Config config_ = {};
  std::vector<std::string> sections_ = {};
  std::map<std::string, std::string> first_ = {};  ///< the first definition of a name
};

}  // namespace

bool serves(Boxes boxes, BoxKind kind) noexcept {
  return boxes == Boxes::both || (boxes == Boxes::outbox) == (kind == BoxKind::outbox);
}

StoreDefinition StoreConfig::definition() const {
  StoreDefinition definition{.name = name, .address = url};
  definition.database.pool_size = static_cast<std::size_t>(connections);
  definition.database.wait_timeout = wait_timeout;
  definition.database.answer_timeout = answer_timeout;
  definition.database.retry_timeout = retry_timeout;
  definition.outbox = {.schema = schema, .table = outbox_table, .deploy_schema = deploy};
  definition.inbox = {.schema = schema, .table = inbox_table, .deploy_schema = deploy};
  if (outbox_retention) definition.outbox.retention = *outbox_retention;
  if (inbox_retention) definition.inbox.retention = *inbox_retention;
  if (outbox_max_age) definition.outbox.max_age = *outbox_max_age;
  if (inbox_max_age) definition.inbox.max_age = *inbox_max_age;
  definition.outbox.hold_keys = definition.inbox.hold_keys = hold_keys;
  definition.inbox.require_synchronous = inbox_require_synchronous;
  return definition;
}

const StoreConfig* Config::find_store(std::string_view name) const {
  const auto found = std::ranges::find(stores, name, &StoreConfig::name);
  return found == stores.end() ? nullptr : &*found;
}

const SinkConfig* Config::find_sink(std::string_view name) const {
  const auto found = std::ranges::find(sinks, name, &SinkConfig::name);
  return found == sinks.end() ? nullptr : &*found;
}

ConfigError::ConfigError(std::vector<ConfigProblem> problems)
    : std::runtime_error(without_secrets(list_of(problems))), problems_(std::move(problems)) {
  for (ConfigProblem& problem : problems_) problem.text = without_secrets(problem.text);
}

Variables process_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Config parse_config(std::string_view text, const std::filesystem::path& file,
                    const Variables& variables, const FileReader& read_file) {
  ConfigSource source{.file = file.string(), .variables = variables, .read_file = read_file};
  toml::table document;
  try {
    document = toml::parse(text, file.string());
  } catch (const toml::parse_error& error) {
    source.add(file.string() + ":" + std::to_string(error.source().begin.line), "TOML",
               std::string{error.description()});
    throw ConfigError{std::move(source.problems)};
  }
  Config config = Builder{source, document}.build();
  if (!source.problems.empty()) throw ConfigError{by_line(std::move(source.problems))};
  config.file = file;
  config.key_locations = std::move(source.key_locations);
  config.secret_files = std::move(source.secret_files);
  return config;
}

Config load_config(const std::optional<std::filesystem::path>& file, const Variables& variables) {
  if (!file) return parse_config("", "", variables);
  const std::optional<std::string> text = read_whole_file(file->string());
  if (!text) {
    std::error_code error;
    const bool there = std::filesystem::exists(*file, error) || error;
    throw ConfigError{{{file->string(), "file", there ? "cannot be read" : "does not exist"}}};
  }
  return parse_config(*text, *file, variables);
}

std::vector<std::string> keep_restart_only(Config& config, const Config& running) {
  std::vector<std::string> changed;
  ServerConfig server = config.server;
  server.hosts = running.server.hosts;  // can change
  if (server != running.server) changed.emplace_back("server");
  std::vector<std::string> hosts = std::move(config.server.hosts);
  config.server = running.server;
  config.server.hosts = std::move(hosts);
  if (config.stores != running.stores) changed.emplace_back("store");
  config.stores = running.stores;
  if (auto problems = leads_nowhere(config); !problems.empty()) {
    throw ConfigError{by_line(std::move(problems))};
  }
  if (config.tracing != running.tracing) changed.emplace_back("tracing");
  config.tracing = running.tracing;
  return changed;
}

std::vector<std::string> config_keys() {
  constexpr std::string_view one_of_each = R"(
    [store."<name>"]
    [retry."<name>"]
    [sink."<name>"]
    [source."<name>"]
    [webhook."<name>"]
    [[route]]
    [[event]]
    [[subscription]]
  )";
  const Variables nothing;
  ConfigSource source{.file = "", .variables = nothing};
  const toml::table document = toml::parse(one_of_each);
  Builder{source, document}.build();
  std::ranges::sort(source.keys);
  source.keys.erase(std::unique(source.keys.begin(), source.keys.end()), source.keys.end());
  return source.keys;
}

}  // namespace twinbox::app
