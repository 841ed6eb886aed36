// schema print, deploy, check and repair.
#include "cli/json.hpp"
#include "cli/open_store.hpp"
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

struct PrintOptions {
  std::string role;
  bool enqueue_only = false;
};

int print(const CommonOptions& common, const PrintOptions& options, const Screen& screen) {
  if (options.enqueue_only && options.role.empty())
    throw CliError(exit_usage, "schema print: --enqueue-only needs a role; add --grants ROLE");
  OpenStore store(common, OpenStore::Missing::create);
  const auto kinds = store.kinds();
  for (const BoxKind kind : kinds) {
    // An inbox has no enqueue function. It is skipped here, and refused if it is the only box.
    if (options.enqueue_only && kind == BoxKind::inbox && kinds.size() > 1) continue;
    const Schema schema(store.database(), kind, store.options(kind));
    screen.print(options.role.empty()   ? schema.print()
                 : options.enqueue_only ? schema.print_enqueue_grants(options.role)
                                        : schema.print_grants(options.role));
  }
  return exit_ok;
}

int deploy(const CommonOptions& common, const Screen& screen) {
  OpenStore store(common, OpenStore::Missing::create);
  json::array boxes;
  for (const BoxKind kind : store.kinds()) {
    const auto applied = Schema{store.database(), kind, store.options(kind)}.deploy();
    const std::string box{to_string(kind)};
    boxes.push_back({{"box", box}, {"applied", to_array(applied)}});
    if (!common.json)
      screen.print(fit(box, 8) + (applied.empty() ? "up to date" : "applied " + joined(applied)) +
                   "\n");
  }
  if (common.json) print_json(screen, {{"boxes", std::move(boxes)}});
  return exit_ok;
}

std::string words_for(const SchemaState& state) {
  const std::string version = "version " + std::to_string(state.version);
  if (state.missing()) return "missing; run twinbox schema deploy";
  if (state.too_new()) {
    return version + ", but this program supports only " + std::to_string(state.known_version) +
           " and older; upgrade twinbox";
  }
  if (state.current()) return version + ", up to date";
  return version + ", outdated; run twinbox schema deploy to apply " + joined(state.pending);
}

int check(const CommonOptions& common, const Screen& screen) {
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

int repair(const CommonOptions& common, const Screen& screen) {
  OpenStore store(common);
  json::array boxes;
  for (const BoxKind kind : store.kinds()) {
    const auto repaired = Schema{store.database(), kind, store.options(kind)}.repair();
    const std::string box{to_string(kind)};
    json::array sequences;
    for (const RepairedSequence& one : repaired) {
      sequences.push_back({{"column", one.column}, {"reached", one.reached}, {"used", one.used}});
      if (!common.json)
        screen.print(fit(box, 8) + "sequence of " + one.column + ": " +
                     std::to_string(one.reached) + " -> " + std::to_string(one.used) + "\n");
    }
    if (!common.json && repaired.empty()) screen.print(fit(box, 8) + "nothing to repair\n");
    boxes.push_back({{"box", box}, {"sequences", std::move(sequences)}});
  }
  if (common.json) print_json(screen, {{"boxes", std::move(boxes)}});
  return exit_ok;
}

}  // namespace

Verb schema_print_verb(CommonOptions& common) {
  auto options = std::make_shared<PrintOptions>();
  return {
      .name = "schema print",
      .group = "Schema",
      .summary = "Print the SQL script that creates the tables",
      .options = with(
          {{"--grants", "ROLE",
            "Print the grants for this application role instead (not for SQLite)", &options->role},
           {"--enqueue-only", "",
            "With --grants: grant only the call of outbox_enqueue, and nothing on a table",
            &options->enqueue_only}},
          {box_options(common), store_options(common)}),
      .examples = {{"twinbox schema print --database postgresql://dba@db/app > twinbox.sql",
                    "for a database administrator to review"},
                   {"twinbox schema print --grants shop --enqueue-only --store main",
                    "for a role that only enqueues by SQL"}},
      .run = [&common, options](const Screen& screen) { return print(common, *options, screen); }};
}

Verb schema_deploy_verb(CommonOptions& common) {
  return {.name = "schema deploy",
          .group = "Schema",
          .summary = "Create or upgrade the tables; safe to repeat",
          .options = with({}, {box_options(common), store_options(common), answer_options(common)}),
          .examples = {{"twinbox schema deploy", "both boxes in ./twinbox.db"},
                       {"twinbox schema deploy --outbox --database postgresql://dba@db/app",
                        "only the outbox, on a database server"}},
          .run = [&common](const Screen& screen) { return deploy(common, screen); }};
}

Verb schema_check_verb(CommonOptions& common) {
  return {.name = "schema check",
          .group = "Schema",
          .summary = "Check that the tables match this program; exit code 1 if not",
          .options = with({}, {box_options(common), store_options(common), answer_options(common)}),
          .examples = {{"twinbox schema check --json", "for a deployment script"}},
          .run = [&common](const Screen& screen) { return check(common, screen); }};
}

Verb schema_repair_verb(CommonOptions& common) {
  return {.name = "schema repair",
          .group = "Schema",
          .summary = "Set sequences that are behind the data (PostgreSQL)",
          .text =
              "Logical replication copies rows but not sequences. After you promote a replica, run "
              "this command before you start programs: it moves each sequence of the boxes forward "
              "to the highest number in use. It needs the rights of the owner of the tables. "
              "Writers wait while it runs.",
          .options = with({}, {box_options(common), store_options(common), answer_options(common)}),
          .examples = {{"twinbox schema repair --database postgresql://dba@db/app",
                        "on a promoted replica"}},
          .run = [&common](const Screen& screen) { return repair(common, screen); }};
}

}  // namespace twinbox::cli
