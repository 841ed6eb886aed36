#include "daemon/config/config_reader.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>

#include "daemon/config/config_sections.hpp"
#include "daemon/config/secrets.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

std::string show(Milliseconds time) {
  const auto count = time.count();
  if (count % 86'400'000 == 0 && count > 0) return std::to_string(count / 86'400'000) + "d";
  if (count % 3'600'000 == 0 && count > 0) return std::to_string(count / 3'600'000) + "h";
  if (count % 60'000 == 0 && count > 0) return std::to_string(count / 60'000) + "m";
  if (count % 1000 == 0 && count > 0) return std::to_string(count / 1000) + "s";
  return std::to_string(count) + "ms";
}

}  // namespace

std::optional<Milliseconds> parse_duration(std::string_view text) {
  const std::size_t unit = text.find_first_not_of("0123456789");
  if (unit == 0 || unit == std::string_view::npos) return {};
  const auto number = parse_integer(text.substr(0, unit));
  if (!number || *number > 1'000'000'000'000) return {};
  const std::string_view name = text.substr(unit);
  if (name == "ms") return Milliseconds{*number};
  if (name == "s") return Milliseconds{*number * 1000};
  if (name == "m" && *number < 1'000'000'000) return Milliseconds{*number * 60'000};
  if (name == "h" && *number < 10'000'000) return Milliseconds{*number * 3'600'000};
  if (name == "d" && *number < 1'000'000) return Milliseconds{*number * 86'400'000};
  return {};
}

std::optional<std::string> read_whole_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::string text;
  // Reads in pieces: a device or a pipe has no size and may be endless.
  for (char piece[4096]; file && text.size() <= max_file_size;) {
    file.read(piece, sizeof piece);
    text.append(piece, static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() || text.size() > max_file_size) return {};
  return text;
}

std::string variable_name(std::string_view key) {
  std::string name = "TWINBOX_";
  for (const char c : key) {
    if (c >= 'a' && c <= 'z') {
      name += static_cast<char>(c - 32);
    } else {
      name += (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    }
  }
  return name;
}

std::string nearest(std::string_view text, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::min<std::size_t>(3, text.size() / 2) + 1;
  for (const std::string& name : known) {
    if (text.size() > 2 && name.starts_with(text)) return name;
    const std::size_t found = distance(text, name);
    if (found < least) {
      least = found;
      best = name;
    }
  }
  return best;
}

std::string ConfigSource::where(const toml::node* node) const {
  if (node == nullptr || !node->source().begin) return file.empty() ? "configuration" : file;
  return file + ":" + std::to_string(node->source().begin.line);
}

void ConfigSource::add(std::string where, std::string key, std::string text) {
  problems.push_back({std::move(where), std::move(key), std::move(text)});
}

std::string TableReader::full(std::string_view key) const {
  return key.empty() ? path_ : path_ + "." + std::string{key};
}

std::optional<TableReader::Setting> TableReader::find(std::string_view key) {
  if (std::ranges::find(known_, key) == known_.end()) {
    known_.emplace_back(key);
    source_.keys.push_back(full(key));
  }
  const std::string name = variable_name(full(key));
  if (const auto variable = source_.variables.find(name); variable != source_.variables.end()) {
    source_.used.insert(name);
    source_.key_locations[full(key)] = "environment " + name;
    return Setting{nullptr, &variable->second, "environment " + name};
  }
  const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
  if (node == nullptr) return {};
  source_.key_locations[full(key)] = source_.where(node);
  return Setting{node, nullptr, source_.where(node)};
}

std::optional<std::string> TableReader::scalar(std::string_view key, std::string_view expected) {
  const std::optional<Setting> found = find(key);
  if (!found) return {};
  if (found->variable != nullptr) return *found->variable;
  if (const auto text = found->node->value_exact<std::string>()) return *text;
  source_.add(found->where, full(key), "expected " + std::string{expected});
  return {};
}

void TableReader::text(std::string_view key, std::string& out) {
  if (auto text = scalar(key, "a string in quotation marks")) out = std::move(*text);
}

std::optional<std::vector<std::string>> TableReader::list(std::string_view key) {
  const std::optional<Setting> found = find(key);
  if (!found) return {};
  if (found->variable != nullptr) return split(*found->variable);
  std::vector<std::string> parts;
  const toml::array* array = found->node->as_array();
  if (array != nullptr) {
    for (const toml::node& node : *array) {
      if (const auto part = node.value_exact<std::string>()) parts.push_back(*part);
    }
  }
  if (array != nullptr && parts.size() == array->size()) return parts;
  source_.add(found->where, full(key), "expected a list of strings: [\"…\", \"…\"]");
  return {};
}

void TableReader::texts(std::string_view key, std::vector<std::string>& out) {
  if (auto parts = list(key)) out = std::move(*parts);
}

void TableReader::pairs(std::string_view key, std::map<std::string, std::string>& out) {
  const std::optional<Setting> found = find(key);
  if (!found) return;
  std::map<std::string, std::string> pairs;
  bool good = true;
  if (found->variable != nullptr) {
    for (const std::string& part : split(*found->variable)) {
      const std::size_t equals = part.find('=');
      good = good && equals != std::string::npos && equals > 0;
      if (good) pairs[part.substr(0, equals)] = part.substr(equals + 1);
    }
  } else if (const toml::table* table = found->node->as_table()) {
    for (const auto& [name, node] : *table) {
      const auto value = node.value_exact<std::string>();
      good = good && value.has_value();
      if (value) pairs[std::string{name.str()}] = *value;
    }
  } else {
    good = false;
  }
  for (auto& [name, value] : pairs) {
    if (!value.starts_with("env:") && !value.starts_with("file:")) continue;
    if (auto secret = resolve(key, value)) value = std::move(*secret);
  }
  if (good) {
    out = std::move(pairs);
  } else {
    source_.add(found->where, full(key), "expected a table of strings: { name = \"value\" }");
  }
}

bool TableReader::integers(std::string_view key, std::vector<int>& out, int low, int high) {
  const std::optional<Setting> found = find(key);
  if (!found) return false;
  std::vector<int> numbers;
  const auto take = [&](std::optional<std::int64_t> number) {
    if (!number || *number < low || *number > high) return false;
    numbers.push_back(static_cast<int>(*number));
    return true;
  };
  bool good = true;
  if (found->variable != nullptr) {
    for (const std::string& part : split(*found->variable))
      good = good && take(parse_integer(part));
  } else if (const toml::array* array = found->node->as_array()) {
    for (const toml::node& node : *array) good = good && take(node.value_exact<std::int64_t>());
  } else {
    good = false;
  }
  if (good) {
    out = std::move(numbers);
  } else {
    source_.add(found->where, full(key),
                "expected a list of whole numbers from " + std::to_string(low) + " to " +
                    std::to_string(high));
  }
  return good;
}

void TableReader::boolean(std::string_view key, bool& out) {
  const std::optional<Setting> found = find(key);
  if (!found) return;
  if (found->variable != nullptr && (*found->variable == "true" || *found->variable == "false")) {
    out = *found->variable == "true";
  } else if (found->node != nullptr && found->node->is_boolean()) {
    out = found->node->as_boolean()->get();
  } else {
    source_.add(found->where, full(key), "expected true or false");
  }
}

std::optional<std::int64_t> TableReader::integer(std::string_view key, std::int64_t low,
                                                 std::int64_t high) {
  const std::optional<Setting> found = find(key);
  if (!found) return {};
  std::optional<std::int64_t> number;
  if (found->variable != nullptr) {
    number = parse_integer(*found->variable);
  } else if (found->node->is_integer()) {
    number = found->node->as_integer()->get();
  }
  if (number && *number >= low && *number <= high) return number;
  source_.add(found->where, full(key),
              "expected a whole number from " + std::to_string(low) + " to " +
                  std::to_string(high) + (number ? ", found " + std::to_string(*number) : ""));
  return {};
}

void TableReader::duration(std::string_view key, std::optional<Milliseconds>& out, Milliseconds low,
                           Milliseconds high) {
  constexpr std::string_view form = "a duration like \"500ms\", \"30s\", \"5m\", \"1h\" or \"7d\"";
  const auto text = scalar(key, form);
  if (!text) return;
  const auto time = parse_duration(*text);
  if (time && *time >= low && *time <= high) {
    out = *time;
    return;
  }
  refuse(key, "expected " + std::string{form} + ", from " + show(low) + " to " + show(high) +
                  ", found \"" + *text + "\"");
}

void TableReader::duration(std::string_view key, Milliseconds& out, Milliseconds low,
                           Milliseconds high) {
  std::optional<Milliseconds> found;
  duration(key, found, low, high);
  if (found) out = *found;
}

std::optional<std::size_t> TableReader::choose(std::string_view key,
                                               const std::vector<std::string>& names) {
  const auto text = scalar(key, "one of " + join(names));
  if (!text) return {};
  const auto found = std::ranges::find(names, *text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::string meant = nearest(*text, names);
  refuse(key, "expected one of " + join(names) + ", found \"" + *text + "\"" +
                  (meant.empty() ? "" : "; did you mean \"" + meant + "\"?"));
  return {};
}

std::optional<std::string> TableReader::resolve(std::string_view key, std::string_view reference) {
  if (reference.starts_with("env:")) {
    const std::string name{reference.substr(4)};
    const auto variable = source_.variables.find(name);
    if (variable == source_.variables.end() || variable->second.empty()) {
      refuse(key, "the environment variable " + name + " is not set");
      return {};
    }
    source_.used.insert(name);
    remember_secret(variable->second);
    return variable->second;
  }
  const std::string path{reference.substr(5)};
  source_.secret_files.emplace_back(full(key), path);
  std::optional<std::string> text = source_.read_file(path);
  while (text && (text->ends_with('\n') || text->ends_with('\r'))) text->pop_back();
  if (!text || text->empty()) {
    refuse(key, "the file " + path + " cannot be read, is empty, or has more than " +
                    std::to_string(max_file_size / 1024 / 1024) + " MiB");
    return {};
  }
  remember_secret(*text);
  return text;
}

void TableReader::secrets(std::string_view key, std::vector<std::string>& out) {
  const auto references = list(key);
  if (!references) return;
  std::vector<std::string> secrets;
  for (const std::string& reference : *references) {
    if (!reference.starts_with("env:") && !reference.starts_with("file:")) {
      refuse(
          key,
          "a secret must come from the environment or a file: use \"env:NAME\" or \"file:path\"");
      return;
    }
    if (auto secret = resolve(key, reference)) secrets.push_back(std::move(*secret));
  }
  out = std::move(secrets);
}

void TableReader::text_or_secret(std::string_view key, std::string& out) {
  auto text = scalar(key, "a string in quotation marks");
  if (!text) return;
  if (text->starts_with("env:") || text->starts_with("file:")) {
    text = resolve(key, *text);
  } else if (holds_password(*text)) {
    remember_secret(*text);
  }
  if (text) out = std::move(*text);
}

void TableReader::refuse(std::string_view key, std::string text) {
  const std::optional<Setting> found = key.empty() ? std::nullopt : find(key);
  source_.add(found ? found->where : source_.where(table_), full(key), std::move(text));
}

bool TableReader::refused(std::string_view key) const {
  return std::ranges::find(source_.problems, full(key), &ConfigProblem::key) !=
         source_.problems.end();
}

void TableReader::finish() {
  if (table_ == nullptr) return;
  for (const auto& [key, node] : *table_) {
    const std::string name{key.str()};
    if (std::ranges::find(known_, name) != known_.end()) continue;
    const std::string meant = nearest(name, known_);
    source_.add(source_.where(&node), full(name),
                "unknown key" + (meant.empty() ? "" : "; did you mean \"" + meant + "\"?"));
  }
}

}  // namespace twinbox::app
