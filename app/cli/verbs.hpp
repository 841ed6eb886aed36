// The commands, by source file.
#pragma once

#include "cli/verb.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::cli {

/// The colour of a state.
Style style_of(DeliveryState state);

// enqueue.cpp
Verb enqueue_verb(CommonOptions& common);
Verb accept_verb(CommonOptions& common);
// list.cpp
Verb status_verb(CommonOptions& common);
Verb list_verb(CommonOptions& common);
// show.cpp
Verb show_verb(CommonOptions& common);
// audit.cpp
Verb audit_verb(CommonOptions& common);
Verb workers_verb(CommonOptions& common);
// operate.cpp
Verb requeue_verb(CommonOptions& common);
Verb postpone_verb(CommonOptions& common);
Verb discard_verb(CommonOptions& common);
// prune.cpp
Verb prune_verb(CommonOptions& common);
Verb reap_verb(CommonOptions& common);
// edit.cpp
Verb edit_verb(CommonOptions& common);
// schema.cpp
Verb schema_print_verb(CommonOptions& common);
Verb schema_deploy_verb(CommonOptions& common);
Verb schema_check_verb(CommonOptions& common);
Verb schema_repair_verb(CommonOptions& common);
// health.cpp
Verb health_verb(CommonOptions& common);
// serve_verb.cpp
Verb serve_verb();
// doctor.cpp
Verb doctor_verb(CommonOptions& common);
// bench.cpp
Verb bench_verb(CommonOptions& common);
// config_verb.cpp
Verb config_check_verb(CommonOptions& common);
// pause_resume.cpp
Verb pause_verb(CommonOptions& common);
Verb resume_verb(CommonOptions& common);
// token.cpp
Verb token_add_verb(CommonOptions& common);
Verb token_list_verb(CommonOptions& common);
Verb token_revoke_verb(CommonOptions& common);
// manual_verb.cpp
Verb man_verb(CommonOptions& common);
Verb completion_verb(CommonOptions& common);

}  // namespace twinbox::cli
