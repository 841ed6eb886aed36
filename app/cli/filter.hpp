// Which messages a verb is about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::cli {

struct FilterOptions {
  std::optional<std::string> state, topic, handler, source, id, correlation, error, since, before;

  /// `states`: those that may be asked for; empty: the verb decides the state itself.
  std::vector<Option> options(std::vector<std::string> states);
  /// True when nothing is asked for, the state aside.
  [[nodiscard]] bool empty() const;
  /// Durations count back from `now`. Throws std::invalid_argument.
  [[nodiscard]] Filter filter(Instant now) const;
};

/// `ready` and so on, `open`, `any`.
StateFilter parse_state(const std::string& state);
/// Empty or `-` means by topic.
HandlerKey parse_handler(const std::string& key);

/// How a group of dead letters is named on the command line: the same for the same group.
std::string group_name(const DeadGroup& group);

}  // namespace twinbox::cli
