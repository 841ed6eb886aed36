// Reads the tables of a configuration: keys that were read are known, all others are refused.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <toml++/toml.h>
#include <utility>
#include <vector>

#include "daemon/config/config.hpp"

namespace twinbox::app {

/// State shared by all tables of one configuration.
struct ConfigSource {
  std::string file;
  const Variables& variables;
  FileReader read_file = read_whole_file;
  std::vector<ConfigProblem> problems = {};
  std::set<std::string, std::less<>> used = {};  ///< variables
  std::vector<std::string> keys = {};            ///< all keys that were read
  KeyLocations key_locations = {};
  std::vector<std::pair<std::string, std::string>> secret_files = {};

  [[nodiscard]] std::string where(const toml::node* node) const;
  void add(std::string where, std::string key, std::string text);
};

/// Parses `500ms`, `30s`, `5m`, `1h`, `7d`. Empty: invalid.
std::optional<Milliseconds> parse_duration(std::string_view text);

/// The environment variable of a key: TWINBOX_SERVER_LISTEN for `server.listen`.
std::string variable_name(std::string_view key);

/// The closest known name; empty if none is close.
std::string nearest(std::string_view text, const std::vector<std::string>& known);

/// Reads one table. An invalid value is recorded as a problem and leaves `out` unchanged.
/// Environment variables override the file.
class TableReader {
 public:
  /// `table` may be null: then only the environment is read.
  TableReader(ConfigSource& source, const toml::table* table, std::string path)
      : source_(source), table_(table), path_(std::move(path)) {}

  void text(std::string_view key, std::string& out);
  void texts(std::string_view key, std::vector<std::string>& out);
  /// A value may be `env:NAME` or `file:path`.
  void pairs(std::string_view key, std::map<std::string, std::string>& out);
  /// False: no valid value.
  bool integers(std::string_view key, std::vector<int>& out, int low, int high);
  void boolean(std::string_view key, bool& out);
  void duration(std::string_view key, Milliseconds& out, Milliseconds low, Milliseconds high);
  void duration(std::string_view key, std::optional<Milliseconds>& out, Milliseconds low,
                Milliseconds high);
  template <class Integer>
  void integer(std::string_view key, Integer& out, std::int64_t low, std::int64_t high) {
    if (const auto number = integer(key, low, high)) out = static_cast<Integer>(*number);
  }
  template <class Choice>
  void choice(std::string_view key, Choice& out,
              std::initializer_list<std::pair<std::string_view, Choice>> choices) {
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) names.emplace_back(name);
    const std::optional<std::size_t> index = choose(key, names);
    if (index) out = (choices.begin() + *index)->second;
  }
  /// A list of `env:NAME` or `file:path`; never the secret itself.
  void secrets(std::string_view key, std::vector<std::string>& out);
  /// As secrets(), for one string that may also be given in plain text.
  void text_or_secret(std::string_view key, std::string& out);

  /// Records a problem with a key of this table; an empty key: with the table itself.
  void refuse(std::string_view key, std::string text);
  /// True if the key has a value in the file or the environment. Call it after reading the key.
  [[nodiscard]] bool given(std::string_view key) const {
    return source_.key_locations.contains(full(key));
  }
  /// True if the key already has a problem, to avoid a second one.
  [[nodiscard]] bool refused(std::string_view key) const;
  /// Records an exception of `make` as a problem with `key`.
  template <class Make>
  void attempt(std::string_view key, Make make) {
    try {
      make();
    } catch (const std::exception& error) {
      refuse(key, error.what());
    }
  }
  /// The location of the table, for other problems.
  [[nodiscard]] std::string where() const { return source_.where(table_); }
  /// Refuses the keys that were not read.
  void finish();

 private:
  struct Setting {
    const toml::node* node = nullptr;
    const std::string* variable = nullptr;
    std::string where;
  };
  std::optional<Setting> find(std::string_view key);
  std::optional<std::string> scalar(std::string_view key, std::string_view expected);
  std::optional<std::vector<std::string>> list(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high);
  std::optional<std::size_t> choose(std::string_view key, const std::vector<std::string>& names);
  std::optional<std::string> resolve(std::string_view key, std::string_view reference);
  [[nodiscard]] std::string full(std::string_view key) const;

  ConfigSource& source_;
  const toml::table* table_;
  std::string path_;
  std::vector<std::string> known_ = {};
};

}  // namespace twinbox::app
