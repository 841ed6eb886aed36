// Every verb, by the file that has it.
#pragma once

#include "cli/verb.hpp"

namespace twinbox::cli {

// serve_verb.cpp
Verb serve_verb();

// manual_verb.cpp
Verb man_verb(Common& common);
Verb completion_verb(Common& common);

}  // namespace twinbox::cli
