// Every verb, by the file that has it.
#pragma once

#include "cli/verb.hpp"
#include <twinbox/admin.hpp>

namespace twinbox::cli {

/// The colour of a state, wherever it is shown.
Style style_of(DutyState state);

// send.cpp
Verb enqueue_verb(Common& common);
Verb accept_verb(Common& common);
// look.cpp
Verb status_verb(Common& common);
Verb list_verb(Common& common);
// show.cpp
Verb show_verb(Common& common);
// audit.cpp
Verb audit_verb(Common& common);
Verb workers_verb(Common& common);
// act.cpp
Verb requeue_verb(Common& common);
Verb postpone_verb(Common& common);
Verb discard_verb(Common& common);
// sweep.cpp
Verb prune_verb(Common& common);
Verb reap_verb(Common& common);
// edit.cpp
Verb edit_verb(Common& common);
// schema.cpp
Verb schema_print_verb(Common& common);
Verb schema_deploy_verb(Common& common);
Verb schema_check_verb(Common& common);
Verb schema_repair_verb(Common& common);
// health.cpp
Verb health_verb(Common& common);
// serve_verb.cpp
Verb serve_verb();
// doctor.cpp
Verb doctor_verb(Common& common);
// bench.cpp
Verb bench_verb(Common& common);
// config_verb.cpp
Verb config_check_verb(Common& common);
// pause.cpp
Verb pause_verb(Common& common);
Verb resume_verb(Common& common);
// token.cpp
Verb token_add_verb(Common& common);
Verb token_list_verb(Common& common);
Verb token_revoke_verb(Common& common);
// manual_verb.cpp
Verb man_verb(Common& common);
Verb completion_verb(Common& common);

}  // namespace twinbox::cli
