// Reads the tables of a configuration: what is asked for is known, what is left over is refused.
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

/// What all tables of one configuration share.
struct ConfigSource {
  std::string file;
  const Variables& variables;
  FileReader read_file = read_whole_file;
  std::vector<ConfigProblem> problems = {};
  std::set<std::string, std::less<>> used = {};  ///< variables
  std::vector<std::string> keys = {};            ///< all that were asked for
  KeyLocations key_locations = {};
  std::vector<std::pair<std::string, std::string>> secret_files = {};

  [[nodiscard]] std::string where(const toml::node* node) const;
  void add(std::string where, std::string key, std::string text);
};

/// `500ms`, `30s`, `5m`, `1h`, `7d`. Empty: it is none.
std::optional<Milliseconds> parse_duration(std::string_view text);

/// The name of a key in the environment: `server.listen` is TWINBOX_SERVER_LISTEN.
std::string variable_name(std::string_view key);

/// The known name that `text` probably meant; empty: none is near.
std::string nearest(std::string_view text, const std::vector<std::string>& known);

/// One table. A value that cannot be used is a problem, and `out` stays as it was; a variable of
/// the environment comes before the file.
class TableReader {
 public:
  /// `table` may be null: then only the environment speaks.
  TableReader(ConfigSource& source, const toml::table* table, std::string path)
      : source_(source), table_(table), path_(std::move(path)) {}

  void text(std::string_view key, std::string& out);
  void texts(std::string_view key, std::vector<std::string>& out);
  /// A value may be `env:NAME` or `file:path`.
  void pairs(std::string_view key, std::map<std::string, std::string>& out);
  /// False: it has no value that can be used.
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
  /// `env:NAME` or `file:path`, in a list; never the secret itself.
  void secrets(std::string_view key, std::vector<std::string>& out);
  /// The same for one text that may be secret or not; anything else is taken as it stands.
  void text_or_secret(std::string_view key, std::string& out);

  /// A problem with a value of this table; an empty key: with the table itself.
  void refuse(std::string_view key, std::string text);
  /// It has a value, in the file or the environment. After it was asked for.
  [[nodiscard]] bool given(std::string_view key) const {
    return source_.key_locations.contains(full(key));
  }
  /// There is one already: what is wrong is not missing besides.
  [[nodiscard]] bool refused(std::string_view key) const;
  /// What `make` throws is a problem with `key`.
  template <class Make>
  void attempt(std::string_view key, Make make) {
    try {
      make();
    } catch (const std::exception& error) {
      refuse(key, error.what());
    }
  }
  /// Where the table is, for the text of another problem.
  [[nodiscard]] std::string where() const { return source_.where(table_); }
  /// Refuses the keys that nobody asked for.
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
