// The command token: manages the daemon's token file.
#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include "daemon/access/tokens.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

struct TokenOptions {
  std::string name;
  std::string role;
};

constexpr const char* how_to_reload =
    "Reload a running daemon to apply the change: systemctl reload twinbox, or kill -HUP.\n";

std::vector<Option> token_options(CommonOptions& common, std::vector<Option> own) {
  return with(
      std::move(own),
      {{{"--config", "FILE", "Configuration file (default: TWINBOX_CONFIG)", &common.config}},
       answer_options(common)});
}

/// The same file as the daemon chooses.
std::filesystem::path chosen_file(const CommonOptions& common) {
  const app::Config config = chosen_config(common);
  try {
    app::require_token_file(config);
  } catch (const std::runtime_error& error) {
    throw CliError(exit_usage, "the configuration is invalid:\n" +
                                   (config.file.empty() ? "configuration" : config.file.string()) +
                                   ": access.token_file: " + error.what());
  }
  return app::token_file(config);
}

int add(const CommonOptions& common, const TokenOptions& options, const Screen& screen) {
  const std::filesystem::path file = chosen_file(common);
  const std::string token =
      app::make_token(file, options.name, app::parse_role(options.role).value());
  if (common.json) {
    print_json(screen, {{"name", options.name},
                        {"role", options.role},
                        {"token", token},
                        {"file", file.string()}});
  } else {
    screen.print(token + "\n");
  }
  screen.note("The token is shown only once; " + printable(file.string()) + " stores its hash.\n" +
              how_to_reload);
  return exit_ok;
}

int list(const CommonOptions& common, const Screen& screen) {
  const std::filesystem::path file = chosen_file(common);
  const std::vector<app::Token> tokens = app::read_tokens(file);
  if (common.json) {
    json::array all;
    for (const app::Token& one : tokens)
      all.push_back({{"name", one.name}, {"role", std::string{to_string(one.role)}}});
    print_json(screen, {{"file", file.string()}, {"tokens", std::move(all)}});
    return exit_ok;
  }
  if (tokens.empty()) {
    screen.note("No tokens in " + printable(file.string()) + "; add one with twinbox token add.\n");
    return exit_ok;
  }
  Table table({{"NAME"}, {"ROLE"}});
  for (const app::Token& one : tokens)
    table.add({printable(one.name), std::string{to_string(one.role)}});
  screen.print(table.text(screen.look()));
  return exit_ok;
}

int revoke(const CommonOptions& common, const TokenOptions& options, const Screen& screen) {
  const std::filesystem::path file = chosen_file(common);
  const std::size_t count = app::revoke_token(file, options.name);
  if (count == 0) {
    throw CliError(exit_negative, "no token '" + printable(options.name) + "' in " +
                                      printable(file.string()) +
                                      "; run twinbox token list to see the tokens");
  }
  if (common.json) {
    print_json(screen, {{"name", options.name},
                        {"revoked", static_cast<std::int64_t>(count)},
                        {"file", file.string()}});
  } else {
    screen.print("revoked " + printable(options.name) + "\n");
  }
  screen.note(how_to_reload);
  if (app::read_tokens(file).empty())
    screen.note(
        "No token is left: the daemon creates one with the role admin at its next start.\n");
  return exit_ok;
}

}  // namespace

Verb token_add_verb(CommonOptions& common) {
  auto options = std::make_shared<TokenOptions>();
  return {
      .name = "token add",
      .group = "Daemon",
      .summary = "Create a token and print it once",
      .text =
          "Writes the hash of the token to the daemon's token file (access.token_file). A new file "
          "is readable only by its owner. Roles: send enqueues and accepts messages; read sees "
          "everything; operate also requeues, discards and pauses; admin may do everything.",
      .options = token_options(
          common,
          {{"name", "NAME", "Name of its user, shown in the audit", &options->name, {}, true},
           {"--role",
            "ROLE",
            "Role: send, read, operate or admin",
            &options->role,
            {"send", "read", "operate", "admin"},
            true}}),
      .examples = {{"twinbox token add ci --role send --config twinbox.toml",
                    "a token for the build server"}},
      .run = [&common, options](const Screen& screen) { return add(common, *options, screen); }};
}

Verb token_list_verb(CommonOptions& common) {
  return {.name = "token list",
          .group = "Daemon",
          .summary = "List the names and roles of the tokens",
          .text = "The file contains only hashes, so the tokens themselves cannot be shown.",
          .options = token_options(common, {}),
          .examples = {{"twinbox token list --config twinbox.toml", ""}},
          .run = [&common](const Screen& screen) { return list(common, screen); }};
}

Verb token_revoke_verb(CommonOptions& common) {
  auto options = std::make_shared<TokenOptions>();
  return {
      .name = "token revoke",
      .group = "Daemon",
      .summary = "Remove a token and end its sessions at the next reload",
      .text = "Exit code 1 means that there is no token with this name.",
      .options =
          token_options(common, {{"name", "NAME", "Name of the token", &options->name, {}, true}}),
      .examples = {{"twinbox token revoke ci --config twinbox.toml", "then reload the daemon"}},
      .run = [&common, options](const Screen& screen) { return revoke(common, *options, screen); }};
}

}  // namespace twinbox::cli
