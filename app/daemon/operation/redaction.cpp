#include "daemon/operation/redaction.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <optional>

#include "daemon/http/http_router.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

// Far deeper than anybody writes, and shallow enough to walk.
constexpr std::size_t max_levels = 1000;

struct Parsed {
  json::value value = nullptr;  ///< null: it is no JSON
  bool unreadable = false;      ///< too deep, or nearly JSON: it may hold what must not be shown
};

/// As a JSON object or array does: several of them one after the other, or one with a mistake.
bool begins_like_json(std::string_view payload) {
  payload.remove_prefix(std::min(payload.find_first_not_of(" \t\r\n"), payload.size()));
  return payload.starts_with('{') || payload.starts_with('[');
}

/// What a page would show as JSON, be it not quite.
Parsed parsed(std::string_view payload) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (payload.starts_with(byte_order_mark)) payload.remove_prefix(byte_order_mark.size());
  json::parse_options options;
  options.max_depth = max_levels;
  options.allow_invalid_utf8 = true;
  boost::system::error_code error;
  json::value value = json::parse(view(payload), error, {}, options);
  if (error) return {.unreadable = error == json::error::too_deep || begins_like_json(payload)};
  return {std::move(value)};
}

std::size_t members_of(const json::value& value) {
  std::size_t count = 0;
  if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) count += 1 + members_of(member.value());
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& element : *array) count += members_of(element);
  }
  return count;
}

/// In valid JSON each member has one colon outside of strings.
std::size_t colons_of(std::string_view text) {
  std::size_t count = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') in_string = !in_string;
    if (text[at] == '\\') ++at;  // only strings have them
    if (!in_string && text[at] == ':') ++count;
  }
  return count;
}

[[noreturn]] void refuse_masked(const std::string& pointer) {
  throw HttpProblem(422, "payload: " + pointer + " contains " + std::string{Redaction::mask} +
                             ", the mask of a hidden value, which would overwrite that value; "
                             "replace the whole payload");
}

constexpr std::string_view data = "/data";

/// The pointer behind `/data`, when it leads to or into an event's data.
std::optional<std::string> inside_data(const std::string& pointer) {
  if (!pointer.starts_with(data)) return {};
  if (pointer.size() > data.size() && pointer[data.size()] != '/') return {};
  return pointer.substr(data.size());
}

/// A text of an event that holds its data, as base64 or as it is.
struct DataText {
  json::value* value;
  bool base64;

  /// Empty: it is no base64.
  [[nodiscard]] std::optional<std::string> decode() const {
    const std::string_view text{value->as_string().data(), value->as_string().size()};
    return base64 ? decode_base64(text) : std::string{text};
  }
  void set(const std::string& text) const {
    *value = json::string{base64 ? app::base64(text) : text};
  }
  [[nodiscard]] std::string name() const { return base64 ? "/data_base64" : "/data"; }
};

std::vector<DataText> data_texts(json::value& event) {
  std::vector<DataText> found;
  json::object* members = event.if_object();
  if (members == nullptr) return found;
  for (const bool base64 : {true, false}) {
    json::value* one = members->if_contains(base64 ? "data_base64" : "data");
    if (one != nullptr && one->is_string()) found.push_back({one, base64});
  }
  return found;
}

}  // namespace

Redaction Redaction::of_data() const {
  std::vector<std::string> inner;
  for (const std::string& pointer : pointers_) {
    if (const auto rest = inside_data(pointer)) inner.push_back(*rest);
  }
  return Redaction{std::move(inner)};
}

/// A pointer into `data` leads into data in base64 and into JSON in a string as well: the sender
/// chooses the form.
std::vector<std::string> Redaction::apply_to_data(json::value& event) const {
  std::vector<std::string> all;
  const Redaction inner = of_data();
  if (inner.pointers_.empty()) return all;
  const bool whole = std::ranges::find(inner.pointers_, "") != inner.pointers_.end();
  for (const DataText& text : data_texts(event)) {
    const std::optional<std::string> bytes = text.decode();
    if (!bytes || text.value->as_string() == view(mask)) continue;
    std::string payload = *bytes;
    std::vector<std::string> blanked = inner.apply(payload);
    if (whole || payload == mask) {
      *text.value = view(mask);
      if (blanked.empty()) blanked.emplace_back();
    } else if (payload != *bytes) {
      text.set(payload);
    }
    for (std::string& pointer : blanked) all.push_back(pointer.insert(0, data));
  }
  return all;
}

std::vector<std::string> Redaction::apply(std::string& payload) const {
  std::vector<std::string> blanked;
  if (pointers_.empty()) return blanked;
  auto [value, unreadable] = parsed(payload);
  if (unreadable) {
    payload = mask;
    return pointers_;
  }
  // Of members with the same name only the last is looked at: the others must not be shown.
  const bool repeats = !value.is_null() && members_of(value) != colons_of(payload);
  for (const std::string& pointer : pointers_) {
    boost::system::error_code error;
    json::value* found = value.find_pointer(view(pointer), error);
    if (found == nullptr || error) continue;
    *found = view(mask);
    blanked.push_back(pointer);
  }
  const json::value before = value;
  for (std::string& pointer : apply_to_data(value)) blanked.push_back(std::move(pointer));
  if (!blanked.empty() || repeats || value != before) payload = json_text(value);
  return blanked;
}

void Redaction::refuse_mask(std::string_view payload) const {
  if (pointers_.empty()) return;
  if (payload == mask) refuse_masked("the whole content");
  json::value value = parsed(payload).value;
  const Redaction inner = of_data();
  for (const DataText& text : data_texts(value)) {
    if (!inner.pointers_.empty() && text.value->as_string() == view(mask))
      refuse_masked(text.name());
    if (const auto bytes = text.decode()) inner.refuse_mask(*bytes);
  }
  for (const std::string& pointer : pointers_) {
    boost::system::error_code error;
    const json::value* found = value.find_pointer(view(pointer), error);
    if (found == nullptr || error || !found->is_string() || found->as_string() != view(mask)) {
      continue;
    }
    refuse_masked(pointer);
  }
}

}  // namespace twinbox::app
