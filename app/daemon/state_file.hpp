// Small state files of the daemon in the folder of the token file.
#pragma once

#include <filesystem>
#include <string_view>

#include <twinbox/environment.hpp>

namespace twinbox::app {

/// Replaces the content atomically: readers see the old or the new content, also after a power
/// failure. Throws std::runtime_error with the name of the file.
void save_file(const std::filesystem::path& file, std::string_view bytes);

/// Renames an unusable file to `….damaged` and logs a warning, so that the daemon can start without
/// it.
void move_damaged_file(const std::filesystem::path& file, std::string_view log_event,
                       const Environment& environment);

}  // namespace twinbox::app
