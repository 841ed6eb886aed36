// Finds a message by its id.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cli/open_store.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::cli {

/// Searches each box. Throws CliError if both boxes have the id, UsageError if several sources use
/// it.
std::optional<std::pair<OpenBox, MessageDetail>> find_message(
    std::span<const OpenBox> boxes, const std::string& id,
    const std::optional<std::string>& source);

std::string unknown_message(const std::string& id);

}  // namespace twinbox::cli
