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

struct Switches {
  bool paused = false;
  std::set<std::string> stores = {};  ///< paused
  std::set<std::string> topics = {};  ///< paused
  /// Disabled by their receiver or by hand, with the reason.
  std::map<std::pair<BoxKind, std::string>, std::string> routes = {};

  bool operator==(const Switches&) const = default;
};

std::string to_json(const Switches& switches);
/// Empty: it is damaged, or of another version.
std::optional<Switches> parse_switches(std::string_view text);

/// Thread-safe.
class SwitchBoard {
 public:
  /// Reads the file; one that cannot be used is put aside (`switches_unusable`). Empty: everything
  /// is forgotten at the end.
  SwitchBoard(std::filesystem::path file, Environment environment);

  [[nodiscard]] Switches now() const;
  /// Writes the file when something has changed. A file that cannot be written is told to the log
  /// (`switches_not_saved`), and the change holds until the end.
  void change(const std::function<void(Switches&)>& act);

 private:
  const std::filesystem::path file_;
  const Environment environment_;
  mutable std::mutex mutex_;
  Switches switches_;
};

}  // namespace twinbox::app
