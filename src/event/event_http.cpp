#include <algorithm>
#include <set>

#include "event/attribute.hpp"
#include "twinbox/event.hpp"

namespace twinbox {
namespace {

constexpr std::string_view prefix = "ce-";

bool has_prefix(std::string_view name) noexcept {
  return name.size() >= prefix.size() &&
         std::ranges::equal(name.substr(0, prefix.size()), prefix, {}, ascii_lower);
}

/// The value of a quoted string (RFC 9110), or the text itself.
std::string unquote(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string{text};
  std::string out;
  for (std::size_t at = 1; at + 1 < text.size(); ++at) {
    if (text[at] == '\\' && at + 2 < text.size()) ++at;
    out += text[at];
  }
  return out;
}

std::string header_value(const std::string& attribute, std::string_view field) {
  std::optional<std::string> value = percent_decode(unquote(field));
  if (value) return *std::move(value);
  throw EventError(attribute, "a % without two hexadecimal digits; write a percent sign as %25");
}

/// The only Content-Type of a request.
std::optional<std::string_view> content_type_of(const HttpHeaders& headers) {
  const auto all = headers.all("Content-Type");
  if (all.size() > 1) throw EventError("Content-Type", "given twice; send it once");
  if (all.empty() || all.front().empty()) return std::nullopt;
  return all.front();
}

void check_charset(std::string_view content_type) {
  const auto charset = media_type_parameter(content_type, "charset");
  if (charset && *charset != "utf-8" && *charset != "us-ascii") {
    throw EventError("Content-Type",
                     "its charset is neither utf-8 nor us-ascii; send the events in UTF-8");
  }
}

void read_attribute(CloudEvent& event, const HttpHeaders::Field& field) {
  std::string name = field.name.substr(prefix.size());
  std::ranges::transform(name, name.begin(), ascii_lower);
  if (name == "datacontenttype") {
    throw EventError("datacontenttype",
                     "sent as header ce-datacontenttype; send it as Content-Type");
  }
  if (name == "data") throw EventError("data", "sent as header ce-data; send it as the body");
  check_extension_name(name);
  set_attribute(event, name, header_value(name, field.value));
}

CloudEvent read_binary(const HttpHeaders& headers, std::string_view body) {
  CloudEvent event;
  std::set<std::string, std::less<>> seen;
  for (const HttpHeaders::Field& field : headers) {
    if (!has_prefix(field.name)) continue;
    std::string name = field.name;
    std::ranges::transform(name, name.begin(), ascii_lower);
    if (!seen.insert(name).second) throw EventError(printable(name), "given twice; send it once");
    read_attribute(event, field);
  }
  if (!seen.contains("ce-specversion")) {
    throw EventError("specversion", "missing; send the header ce-specversion: 1.0");
  }
  if (const auto type = content_type_of(headers)) event.datacontenttype = *type;
  if (!body.empty()) {
    event.data_kind =
        event.datacontenttype ? data_kind_of(*event.datacontenttype) : DataKind::binary;
    event.data = body;
  }
  event.check();
  return event;
}

HttpContent write_binary(const CloudEvent& event) {
  const BinaryAttributes attributes = binary_attributes(event);
  HttpContent content{{}, event.data};
  for (const auto& [name, value] : attributes.list) {
    content.headers.add("ce-" + name, percent_encode(value, "\"%"));
  }
  if (!attributes.content_type.empty()) {
    content.headers.add("Content-Type", attributes.content_type);
  }
  return content;
}

HttpContent json_content(std::string_view type, std::string body) {
  return {{{"Content-Type", std::string{type} + "; charset=utf-8"}}, std::move(body)};
}

}  // namespace

std::optional<ContentMode> content_mode(const HttpHeaders& headers) {
  const std::string type = media_type(headers.find("Content-Type").value_or(""));
  if (type == event_batch_content_type) return ContentMode::batch;
  if (type.starts_with("application/cloudevents")) return ContentMode::structured;
  for (const HttpHeaders::Field& field : headers) {
    if (has_prefix(field.name)) return ContentMode::binary;
  }
  return std::nullopt;
}

HttpContent to_http(const CloudEvent& event, ContentMode mode) {
  switch (mode) {
    case ContentMode::binary: return write_binary(event);
    case ContentMode::structured: return json_content(event_content_type, to_json(event));
    case ContentMode::batch: break;
  }
  return to_http(std::span{&event, 1});
}

HttpContent to_http(std::span<const CloudEvent> batch) {
  return json_content(event_batch_content_type, to_json(batch));
}

std::vector<CloudEvent> events_from_http(const HttpHeaders& headers, std::string_view body,
                                         std::size_t max_events) {
  const auto mode = content_mode(headers);
  if (!mode) {
    throw EventError("specversion", "missing; send ce- headers, or Content-Type " +
                                        std::string{event_content_type});
  }
  if (*mode == ContentMode::binary) return {read_binary(headers, body)};
  const std::string_view type = *content_type_of(headers);
  check_charset(type);
  if (*mode == ContentMode::batch) return events_from_json(body, max_events);
  if (media_type(type) != event_content_type) {
    throw EventError("Content-Type", "not a format that is supported; send " +
                                         std::string{event_content_type} + " or " +
                                         std::string{event_batch_content_type});
  }
  return {event_from_json(body)};
}

}  // namespace twinbox
