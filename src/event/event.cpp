#include "twinbox/event.hpp"

#include "core/json.hpp"
#include "core/text.hpp"
#include "event/attribute.hpp"

namespace twinbox {
namespace {

constexpr std::size_t max_extensions = 100;
constexpr std::size_t max_length = 8'192;  // of attributes without a column; a header must fit it

bool is_reserved(std::string_view name) noexcept {
  for (const std::string_view own : {"id", "source", "type", "specversion", "subject", "time",
                                     "datacontenttype", "dataschema", "data"}) {
    if (name == own) return true;
  }
  return false;
}

void check_extensions(const CloudEvent& event) {
  if (event.extensions.size() > max_extensions) {
    throw EventError("extensions", std::to_string(event.extensions.size()) +
                                       " extensions, at most " + std::to_string(max_extensions) +
                                       " are allowed; move the rest into the data");
  }
  for (const auto& [name, value] : event.extensions) {
    check_extension_name(name);
    if (is_reserved(name))
      throw EventError(
          name, "an attribute of CloudEvents itself; set its member instead of an extension");
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) continue;
    check_string(name, *text);
    if (text->size() > max_length) {
      throw EventError(name, std::to_string(text->size()) + " bytes, at most " +
                                 std::to_string(max_length) +
                                 " are allowed; move long values into the data");
    }
  }
}

void check_data(const CloudEvent& event) {
  const DataKind announced =
      event.datacontenttype ? data_kind_of(*event.datacontenttype) : DataKind::json;
  switch (event.data_kind) {
    case DataKind::none:
      if (!event.data.empty())
        throw EventError("data",
                         "not empty, although data_kind is none; call set_data, or clear it");
      break;
    case DataKind::json:
      if (announced != DataKind::json) {
        throw EventError(
            "data", "JSON, but datacontenttype announces something else; make it application/json");
      }
      if (!is_json(event.data)) {
        throw EventError("data", "not JSON of at most " + std::to_string(max_json_depth) +
                                     " levels, as datacontenttype announces; send JSON, or name "
                                     "another content type");
      }
      break;
    case DataKind::text:
      if (announced == DataKind::json) {
        throw EventError("datacontenttype",
                         "announces JSON, but the data is text; make it a type such as text/plain");
      }
      if (find_invalid_utf8(event.data))
        throw EventError("data",
                         "not UTF-8, as datacontenttype announces; encode the text as UTF-8, or "
                         "name its charset");
      break;
    case DataKind::binary: break;
  }
}

}  // namespace

EventError::EventError(std::string attribute, const std::string& why)
    : std::invalid_argument(attribute + ": " + why), attribute_(std::move(attribute)) {}

void CloudEvent::set_data(std::string content, std::optional<std::string> content_type) {
  data_kind = content_type ? data_kind_of(*content_type) : DataKind::json;
  datacontenttype = std::move(content_type);
  data = std::move(content);
}

std::optional<std::string> CloudEvent::extension(std::string_view name) const {
  const auto found = extensions.find(name);
  if (found == extensions.end()) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&found->second)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int32_t>(&found->second)) {
    return std::to_string(*number);
  }
  return std::get<std::string>(found->second);
}

void CloudEvent::check() const {
  check_not_empty("id", id, 256);
  check_not_empty("source", source, max_length);
  if (!is_uri(source, false)) {
    throw EventError("source", "not a URI reference; encode other characters as %XX");
  }
  check_not_empty("type", type, 500);
  if (subject) check_not_empty("subject", *subject, max_length);
  if (datacontenttype) {
    check_not_empty("datacontenttype", *datacontenttype, 255);
    if (!is_media_type(*datacontenttype)) {
      throw EventError("datacontenttype", "not a media type; write it like application/json");
    }
  }
  if (dataschema) {
    check_not_empty("dataschema", *dataschema, max_length);
    if (!is_uri(*dataschema, true))
      throw EventError("dataschema",
                       "not an absolute URI; write it like https://example.com/schema");
  }
  check_extensions(*this);
  check_data(*this);
}

}  // namespace twinbox
