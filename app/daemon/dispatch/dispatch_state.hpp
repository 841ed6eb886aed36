// What is switched off: dispatch that is paused, routes that are disabled. Kept over restarts.
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
  /// Disabled by their receiver or by hand, with the reason.
  std::map<std::pair<BoxKind, std::string>, std::string> routes = {};

  bool operator==(const DispatchState&) const = default;
};

std::string to_json(const DispatchState& dispatch_state);
/// Empty: it is damaged, or of another version.
std::optional<DispatchState> parse_dispatch_state(std::string_view text);

/// Thread-safe.
class DispatchStateFile {
 public:
  /// Reads the file; one that cannot be used is put aside (`dispatch_state_unusable`). Empty:
  /// everything is forgotten at the end.
  DispatchStateFile(std::filesystem::path file, Environment environment);

  [[nodiscard]] DispatchState now() const;
  /// Writes the file when something has changed. A file that cannot be written is told to the log
  /// (`dispatch_state_not_saved`), and the change holds until the end.
  void change(const std::function<void(DispatchState&)>& act);

 private:
  const std::filesystem::path file_;
  const Environment environment_;
  mutable std::mutex mutex_;
  DispatchState dispatch_state_;
};

}  // namespace twinbox::app
