// A message by the id that a person types.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cli/open_store.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::cli {

/// Looks in each box. Throws CliError when it is in both, UsageError when several sources use it.
std::optional<std::pair<OpenBox, MessageDetail>> find_message(
    std::span<const OpenBox> boxes, const std::string& id,
    const std::optional<std::string>& source);

std::string unknown_message(const std::string& id);

}  // namespace twinbox::cli
