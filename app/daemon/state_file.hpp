// Small files beside the token file that the daemon keeps for its next start.
#pragma once

#include <filesystem>
#include <string_view>

#include <twinbox/environment.hpp>

namespace twinbox::app {

/// The whole content at once: a reader sees the former or the new one, also after a power cut.
/// Throws std::runtime_error that names the file.
void save_file(const std::filesystem::path& file, std::string_view bytes);

/// A file that cannot be used is renamed to `….damaged`, with a warning, so that the daemon can
/// start without it.
void move_damaged_file(const std::filesystem::path& file, std::string_view log_event,
                       const Environment& environment);

}  // namespace twinbox::app
