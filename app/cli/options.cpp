#include "cli/verb.hpp"

namespace twinbox::cli {

std::vector<Option> store_options(CommonOptions& common) {
  return {
      {"--database",
       "URL",
       "sqlite:<file>, postgresql://user@host/name or sqlserver://user@host/name, without a "
       "password: pass it in PGPASSWORD, ~/.pgpass, SQLCMDPASSWORD or TWINBOX_DATABASE (default: "
       "sqlite:twinbox.db)",
       &common.database,
       {},
       false,
       "Store"},
      {"--store", "NAME", "A store of the configuration file", &common.store, {}, false, "Store"},
      {"--config",
       "FILE",
       "Configuration file (default: TWINBOX_CONFIG)",
       &common.config,
       {},
       false,
       "Store"},
      {"--schema",
       "NAME",
       "Schema of the tables (default: infra)",
       &common.schema,
       {},
       false,
       "Store"},
  };
}

std::vector<Option> box_options(CommonOptions& common) {
  return {
      {"--outbox", "", "Only the outbox", &common.outbox, {}, false, "Store"},
      {"--inbox", "", "Only the inbox", &common.inbox, {}, false, "Store"},
  };
}

std::vector<Option> answer_options(CommonOptions& common) {
  return {
      {"--json", "", "Print JSON", &common.json, {}, false, "Output"},
      {"--color",
       "WHEN",
       "Colours: auto (on a terminal), always or never",
       &common.colour,
       {"auto", "always", "never"},
       false,
       "Output"},
  };
}

std::vector<Option> bulk_options(CommonOptions& common) {
  return {
      {"--dry-run", "", "Only count the messages that would change", &common.dry_run},
      {"--yes", "", "Do not ask for confirmation", &common.yes},
      {"--actor", "NAME", "Name of the operator, kept in the audit (default: your user name)",
       &common.actor},
  };
}

std::vector<Option> operation_options(CommonOptions& common) {
  return {{"--operation", "ID",
           "Id of the operation: repeating it changes nothing twice and continues an interrupted "
           "operation",
           &common.operation}};
}

std::vector<Option> with(std::vector<Option> options,
                         std::initializer_list<std::vector<Option>> shared) {
  for (const auto& more : shared) options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace twinbox::cli
