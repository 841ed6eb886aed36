#include "daemon/redaction.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "daemon/json.hpp"
#include "daemon/router.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

// Far deeper than anybody writes, and shallow enough to walk.
constexpr std::size_t most_levels = 1000;

struct Parsed {
  json::value value = nullptr;  ///< null: it is no JSON
  bool too_deep = false;        ///< it may be JSON, and nobody has looked into all of it
};

/// What a page would show as JSON, be it not quite.
Parsed parsed(std::string_view payload) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (payload.starts_with(byte_order_mark)) payload.remove_prefix(byte_order_mark.size());
  json::parse_options options;
  options.max_depth = most_levels;
  options.allow_invalid_utf8 = true;
  boost::system::error_code error;
  json::value value = json::parse(view(payload), error, {}, options);
  if (error) return {.too_deep = error == json::error::too_deep};
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

}  // namespace

std::vector<std::string> Redaction::apply(std::string& payload) const {
  std::vector<std::string> blanked;
  if (pointers_.empty()) return blanked;
  auto [value, too_deep] = parsed(payload);
  if (too_deep) {
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
  if (!blanked.empty() || repeats) payload = json_text(value);
  return blanked;
}

void Redaction::refuse_mask(std::string_view payload) const {
  if (pointers_.empty()) return;
  const json::value value = parsed(payload).value;
  for (const std::string& pointer : pointers_) {
    boost::system::error_code error;
    const json::value* found = value.find_pointer(view(pointer), error);
    if (found == nullptr || error || !found->is_string() || found->as_string() != view(mask)) {
      continue;
    }
    throw Refused(422, "payload: " + pointer + " holds " + std::string{mask} +
                           ", which would be stored in its place; a content with hidden parts can "
                           "only be replaced whole");
  }
}

}  // namespace twinbox::app
