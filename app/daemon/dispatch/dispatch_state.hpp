// Paused dispatch and disabled routes, kept over restarts.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <twinbox/environment.hpp>
#include <twinbox/schema.hpp>

namespace twinbox::app {

struct DispatchState {
  bool paused = false;
  std::set<std::string> stores = {};  ///< paused
  std::set<std::string> topics = {};  ///< paused
  /// Routes disabled by their receiver or an operator, with the reason.
  std::map<std::pair<BoxKind, std::string>, std::string> routes = {};

  bool operator==(const DispatchState&) const = default;
};

std::string to_json(const DispatchState& dispatch_state);
/// Empty: damaged, or written by another version.
std::optional<DispatchState> parse_dispatch_state(std::string_view text);

/// Thread-safe.
class DispatchStateFile {
 public:
  /// Reads the file and renames an unusable one (`dispatch_state_unusable`). An empty file name:
  /// the state is lost at the end of the process.
  DispatchStateFile(std::filesystem::path file, Environment environment);

  [[nodiscard]] DispatchState now() const;
  /// Writes the file after a change. If that fails, the error is logged
  /// (`dispatch_state_not_saved`) and the change lasts until the end of the process.
  void change(const std::function<void(DispatchState&)>& edit);

 private:
  const std::filesystem::path file_;
  const Environment environment_;
  mutable std::mutex mutex_;
  DispatchState dispatch_state_;
};

}  // namespace twinbox::app
