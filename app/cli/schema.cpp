// schema print, deploy and check.
#include "cli/json.hpp"
#include "cli/store.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

json::array to_array(const std::vector<std::string>& names) {
  json::array array;
  for (const std::string& name : names) array.push_back(json::value(name));
  return array;
}

int print(const Common& common, const std::string& role, const Screen& screen) {
  OpenStore store(common, OpenStore::Missing::create);
  for (const BoxKind kind : store.kinds()) {
    const Schema schema(store.database(), kind, store.options(kind));
    screen.print(role.empty() ? schema.print() : schema.print_grants(role));
  }
  return exit_ok;
}

int deploy(const Common& common, const Screen& screen) {
  OpenStore store(common, OpenStore::Missing::create);
  json::array boxes;
  for (const BoxKind kind : store.kinds()) {
    const auto applied = Schema{store.database(), kind, store.options(kind)}.deploy();
    const std::string box{to_string(kind)};
    boxes.push_back({{"box", box}, {"applied", to_array(applied)}});
    if (!common.json)
      screen.print(fit(box, 8) +
                   (applied.empty() ? "is up to date" : "applied " + joined(applied)) + "\n");
  }
  if (common.json) print_json(screen, {{"boxes", std::move(boxes)}});
  return exit_ok;
}

std::string words_for(const SchemaState& state) {
  const std::string version = "version " + std::to_string(state.version);
  if (state.missing()) return "missing; create it with twinbox schema deploy";
  if (state.too_new()) {
    return version + ", newer than this program, which knows " +
           std::to_string(state.known_version) + "; use a newer program";
  }
  if (state.current()) return version + ", as this program knows it";
  return version + ", and twinbox schema deploy would apply " + joined(state.pending);
}

int check(const Common& common, const Screen& screen) {
  OpenStore store(common);
  json::array boxes;
  int code = exit_ok;
  for (const BoxKind kind : store.kinds()) {
    const SchemaState state = Schema{store.database(), kind, store.options(kind)}.check();
    if (!state.current()) code = exit_negative;
    const std::string box{to_string(kind)};
    boxes.push_back({{"box", box},
                     {"version", state.version},
                     {"known_version", state.known_version},
                     {"pending", to_array(state.pending)},
                     {"current", state.current()}});
    if (!common.json) {
      const Style style = state.current() ? Style::good : Style::warn;
      screen.print(fit(box, 8) + screen.look().paint(style, words_for(state)) + "\n");
    }
  }
  if (common.json) print_json(screen, {{"boxes", std::move(boxes)}});
  return code;
}

}  // namespace

Verb schema_print_verb(Common& common) {
  auto role = std::make_shared<std::string>();
  return {
      .name = "schema print",
      .group = "Schema",
      .summary = "the script that creates the tables, to run by hand",
      .options = with({{"--grants", "ROLE",
                        "instead: the rights that this role of the application needs (not SQLite)",
                        role.get()}},
                      {box_options(common), store_options(common)}),
      .examples = {{"twinbox schema print --database postgresql://dba@db/app > twinbox.sql",
                    "for a DBA to read"}},
      .run = [&common, role](const Screen& screen) { return print(common, *role, screen); }};
}

Verb schema_deploy_verb(Common& common) {
  return {.name = "schema deploy",
          .group = "Schema",
          .summary = "creates or upgrades the tables; harmless to repeat",
          .options = with({}, {box_options(common), store_options(common), answer_options(common)}),
          .examples = {{"twinbox schema deploy", "both boxes in ./twinbox.db"},
                       {"twinbox schema deploy --outbox --database postgresql://dba@db/app",
                        "the outbox alone, on a server"}},
          .run = [&common](const Screen& screen) { return deploy(common, screen); }};
}

Verb schema_check_verb(Common& common) {
  return {.name = "schema check",
          .group = "Schema",
          .summary = "whether the tables fit this program; exit code 1 when not",
          .options = with({}, {box_options(common), store_options(common), answer_options(common)}),
          .examples = {{"twinbox schema check --json", "for a deployment script"}},
          .run = [&common](const Screen& screen) { return check(common, screen); }};
}

}  // namespace twinbox::cli
