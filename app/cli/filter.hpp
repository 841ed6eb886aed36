// The filter options that select messages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::cli {

struct FilterOptions {
  std::optional<std::string> state, topic, handler, source, id, correlation, error, since, before;

  /// `states`: the values that --state accepts; empty: the command chooses the state.
  std::vector<Option> options(std::vector<std::string> states);
  /// True if no filter except the state is given.
  [[nodiscard]] bool empty() const;
  /// Durations count back from `now`. Throws std::invalid_argument.
  [[nodiscard]] Filter filter(Instant now) const;
};

/// `ready` and so on, `open`, `any`.
StateFilter parse_state(const std::string& state);
/// Empty or `-` means by topic.
HandlerKey parse_handler(const std::string& key);

/// The name of a group of dead letters on the command line; stable for the same group.
std::string group_name(const DeadGroup& group);

}  // namespace twinbox::cli
