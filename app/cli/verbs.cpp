#include "cli/verbs.hpp"

namespace twinbox::cli {

std::vector<Verb> all_verbs(Common& common) {
  return {serve_verb(), man_verb(common), completion_verb(common)};
}

}  // namespace twinbox::cli
