#include "cli/verb.hpp"

namespace twinbox::cli {

std::vector<Option> store_options(CommonOptions& common) {
  return {
      {"--database",
       "URL",
       "sqlite:<file>, postgresql://user@host/name or sqlserver://user@host/name; never with a "
       "password, which comes from "
       "PGPASSWORD, ~/.pgpass, SQLCMDPASSWORD or TWINBOX_DATABASE (default: sqlite:twinbox.db)",
       &common.database,
       {},
       false,
       "Store"},
      {"--store", "NAME", "a store of the configuration file", &common.store, {}, false, "Store"},
      {"--config",
       "FILE",
       "the configuration file (default: TWINBOX_CONFIG)",
       &common.config,
       {},
       false,
       "Store"},
      {"--schema",
       "NAME",
       "where the tables lie (default: infra)",
       &common.schema,
       {},
       false,
       "Store"},
  };
}

std::vector<Option> box_options(CommonOptions& common) {
  return {
      {"--outbox", "", "only the outbox", &common.outbox, {}, false, "Store"},
      {"--inbox", "", "only the inbox", &common.inbox, {}, false, "Store"},
  };
}

std::vector<Option> answer_options(CommonOptions& common) {
  return {
      {"--json", "", "the answer as JSON", &common.json, {}, false, "Answer"},
      {"--color",
       "WHEN",
       "auto (on a terminal), always or never",
       &common.colour,
       {"auto", "always", "never"},
       false,
       "Answer"},
  };
}

std::vector<Option> bulk_options(CommonOptions& common) {
  return {
      {"--dry-run", "", "only count what would change", &common.dry_run},
      {"--yes", "", "do not ask", &common.yes},
      {"--actor", "NAME", "who did it, for the audit (default: the user's name)", &common.actor},
  };
}

std::vector<Option> operation_options(CommonOptions& common) {
  return {{"--operation", "ID",
           "an id for it: the same again does nothing twice, and goes on where it was cut off",
           &common.operation}};
}

std::vector<Option> with(std::vector<Option> options,
                         std::initializer_list<std::vector<Option>> shared) {
  for (const auto& more : shared) options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace twinbox::cli
