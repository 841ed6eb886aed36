#include "daemon/redaction.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "daemon/json.hpp"
#include "daemon/router.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

/// Null: it is no JSON of a sensible depth.
json::value parsed(std::string_view payload) {
  boost::system::error_code error;
  json::value value = json::parse(view(payload), error);
  if (error) return nullptr;
  return value;
}

}  // namespace

std::vector<std::string> Redaction::apply(std::string& payload) const {
  std::vector<std::string> blanked;
  if (pointers_.empty()) return blanked;
  json::value value = parsed(payload);
  for (const std::string& pointer : pointers_) {
    boost::system::error_code error;
    json::value* found = value.find_pointer(view(pointer), error);
    if (found == nullptr || error) continue;
    *found = view(mask);
    blanked.push_back(pointer);
  }
  if (!blanked.empty()) payload = json_text(value);
  return blanked;
}

void Redaction::refuse_mask(std::string_view payload) const {
  if (pointers_.empty()) return;
  json::value value = parsed(payload);
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
