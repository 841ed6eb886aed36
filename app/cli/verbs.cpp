#include "cli/verbs.hpp"

namespace twinbox::cli {

std::vector<Verb> all_verbs(CommonOptions& common) {
  return {enqueue_verb(common),       accept_verb(common),
          status_verb(common),        list_verb(common),
          show_verb(common),          audit_verb(common),
          workers_verb(common),       requeue_verb(common),
          postpone_verb(common),      discard_verb(common),
          edit_verb(common),          prune_verb(common),
          reap_verb(common),          schema_print_verb(common),
          schema_deploy_verb(common), schema_check_verb(common),
          schema_repair_verb(common), health_verb(common),
          doctor_verb(common),        config_check_verb(common),
          bench_verb(common),         serve_verb(),
          pause_verb(common),         resume_verb(common),
          token_add_verb(common),     token_list_verb(common),
          token_revoke_verb(common),  man_verb(common),
          completion_verb(common)};
}

}  // namespace twinbox::cli
