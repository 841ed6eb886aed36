#include "cli/open_store.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/text.hpp"
#include "daemon/config/config_sections.hpp"
#include <twinbox/health.hpp>

namespace twinbox::cli {
namespace {

constexpr std::string_view sqlite_scheme = "sqlite:";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

/// The file of a SQLite store; empty: in memory, or on a server.
std::string file_of(const std::string& address) {
  if (!address.starts_with(sqlite_scheme)) return {};
  std::string file = address.substr(sqlite_scheme.size());
  return file == ":memory:" ? std::string{} : file;
}

std::string repeat_with_store(const CommonOptions& common) {
  std::string text;
  if (!common.config.empty()) text += " --config " + common.config;
  if (!common.store.empty()) text += " --store " + common.store;
  if (!common.database.empty()) text += " --database " + common.database;
  if (!common.schema.empty()) text += " --schema " + common.schema;
  return text;
}

/// The store named `name`; without a name, the only one.
StoreDefinition configured_store(const app::Config& config, const std::string& name) {
  const bool only = name.empty() && config.stores.size() == 1;
  const app::StoreConfig* store = only ? &config.stores.front() : config.find_store(name);
  if (store == nullptr) {
    std::string known;
    for (const app::StoreConfig& one : config.stores)
      known += (known.empty() ? "" : ", ") + one.name;
    if (name.empty()) {
      throw CliError(exit_usage, "the configuration has several stores; choose one with --store: " +
                                     printable(known));
    }
    throw CliError(exit_usage,
                   "the configuration has no store '" + printable(name) + "'; it has: " + known);
  }
  StoreDefinition definition = store->definition();
  // Commands must not change the schema; only schema deploy does.
  definition.outbox.deploy_schema = definition.inbox.deploy_schema = false;
  if (config.file.empty()) definition.name.clear();
  return definition;
}

}  // namespace

void refuse_password(const std::string& address) {
  if (!app::holds_password(address)) return;
  throw CliError(
      exit_usage,
      "--database contains a password, which every user of this machine can read in the process "
      "list; pass it in PGPASSWORD, ~/.pgpass, SQLCMDPASSWORD or TWINBOX_DATABASE");
}

std::string full_address(std::string address) {
  if (address.find(':') == std::string::npos && address.find('=') == std::string::npos)
    return std::string{sqlite_scheme} + address;
  return address;
}

app::Config chosen_config(const CommonOptions& common) {
  const std::string file = common.config.empty() ? variable("TWINBOX_CONFIG") : common.config;
  try {
    return app::load_config(
        file.empty() ? std::nullopt : std::optional<std::filesystem::path>{file},
        app::process_variables());
  } catch (const app::ConfigError& error) {
    throw CliError(exit_usage, "the configuration is invalid:\n" + std::string{error.what()});
  }
}

StoreDefinition chosen_store(const CommonOptions& common) {
  StoreDefinition definition;
  if (!common.database.empty() && !common.store.empty())
    throw CliError(exit_usage, "--database and --store exclude each other; leave one out");
  const std::string address = variable("TWINBOX_DATABASE");
  if (!common.database.empty()) {
    refuse_password(common.database);
    definition.address = full_address(common.database);
  } else if (common.store.empty() && common.config.empty() && !address.empty()) {
    definition.address = full_address(address);
  } else {
    definition = configured_store(chosen_config(common), common.store);
  }
  if (!common.schema.empty()) definition.outbox.schema = definition.inbox.schema = common.schema;
  // The name in errors and headings never contains a password.
  if (definition.name.empty()) definition.name = Database{definition.address}.name();
  return definition;
}

OpenStore::OpenStore(const CommonOptions& common, Missing missing) : common_(common) {
  StoreDefinition definition = chosen_store(common);
  const std::string file = file_of(definition.address);
  if (missing == Missing::refuse && !file.empty() && !std::filesystem::exists(file)) {
    throw CliError(exit_database, "the database file " + printable(file) +
                                      " does not exist; create it with twinbox schema deploy" +
                                      repeat_with_store(common) +
                                      ", or choose another store with --database");
  }
  definition.database.retry_timeout = {};  // a person is waiting
  // The command prints its own messages; log events would be noise.
  store_ =
      std::make_unique<Store>(std::move(definition), Environment{.log = [](const LogEvent&) {}});
}

const BoxOptions& OpenStore::options(BoxKind kind) const noexcept {
  return kind == BoxKind::outbox ? definition().outbox : definition().inbox;
}

SchemaState OpenStore::schema_state(BoxKind kind) {
  return Schema{database(), kind, options(kind)}.check();
}

void OpenStore::require(BoxKind kind, const SchemaState& state) const {
  const std::string tables =
      "store " + name() + ": the tables of the " + std::string{to_string(kind)};
  const std::string deploy =
      "twinbox schema deploy --" + std::string{to_string(kind)} + repeat_with_store(common_);
  if (state.missing()) {
    throw CliError(exit_schema, tables + " are missing; create them with " + deploy);
  }
  if (state.too_new()) {
    throw CliError(exit_schema, tables + " have version " + std::to_string(state.version) +
                                    ", but this program supports only " +
                                    std::to_string(state.known_version) +
                                    " and older; upgrade twinbox");
  }
  if (state.version < state.known_version) {
    throw CliError(exit_schema, tables + " have version " + std::to_string(state.version) +
                                    ", but this program needs " +
                                    std::to_string(state.known_version) + "; upgrade them with " +
                                    deploy);
  }
}

Outbox& OpenStore::outbox() {
  require(BoxKind::outbox, schema_state(BoxKind::outbox));
  return store_->outbox();
}

Inbox& OpenStore::inbox() {
  require(BoxKind::inbox, schema_state(BoxKind::inbox));
  return store_->inbox();
}

std::vector<BoxKind> OpenStore::kinds() const {
  if (common_.outbox == common_.inbox) return {BoxKind::outbox, BoxKind::inbox};
  return {common_.outbox ? BoxKind::outbox : BoxKind::inbox};
}

std::vector<OpenBox> OpenStore::boxes() {
  const bool named = common_.outbox || common_.inbox;
  std::vector<OpenBox> found;
  for (const BoxKind kind : kinds()) {
    const SchemaState state = schema_state(kind);
    if (state.missing() && !named) continue;
    require(kind, state);
    if (kind == BoxKind::outbox) found.push_back({kind, store_->outbox()});
    if (kind == BoxKind::inbox) found.push_back({kind, store_->inbox()});
  }
  if (found.empty()) {
    throw CliError(exit_schema, "store " + name() +
                                    " has neither outbox nor inbox; create them with twinbox "
                                    "schema deploy" +
                                    repeat_with_store(common_));
  }
  return found;
}

Instant OpenStore::now() { return clock_of(database()); }

}  // namespace twinbox::cli
