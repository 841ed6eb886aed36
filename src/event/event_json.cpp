#include <charconv>
#include <set>

#include "core/encoding.hpp"
#include "core/json.hpp"
#include "event/attribute.hpp"
#include "twinbox/event.hpp"

namespace twinbox {
namespace {

void append_member(std::string& out, std::string_view name, std::string_view text) {
  append_json_string(out, name);
  out += ':';
  append_json_string(out, text);
}

void append_extension(std::string& out, const std::string& name, const Extension& value) {
  out += ',';
  if (const auto* text = std::get_if<std::string>(&value)) return append_member(out, name, *text);
  append_json_string(out, name);
  out += ':';
  if (const auto* flag = std::get_if<bool>(&value)) {
    out += *flag ? "true" : "false";
  } else {
    out += std::to_string(std::get<std::int32_t>(value));
  }
}

void append_data(std::string& out, const CloudEvent& event) {
  switch (event.data_kind) {
    case DataKind::none: break;
    case DataKind::json:
      out += ",\"data\":";
      out += event.data;
      break;
    case DataKind::text:
      out += ',';
      append_member(out, "data", event.data);
      break;
    case DataKind::binary:
      out += ',';
      append_member(out, "data_base64", base64(event.data));
      break;
  }
}

void append_event(std::string& out, const CloudEvent& event) {
  event.check();
  out += R"({"specversion":"1.0",)";
  append_member(out, "id", event.id);
  out += ',';
  append_member(out, "source", event.source);
  out += ',';
  append_member(out, "type", event.type);
  const auto optional = [&](std::string_view name, const std::optional<std::string>& value) {
    if (!value) return;
    out += ',';
    append_member(out, name, *value);
  };
  optional("subject", event.subject);
  if (event.time) optional("time", event.time->str());
  optional("datacontenttype", event.datacontenttype);
  optional("dataschema", event.dataschema);
  for (const auto& [name, value] : event.extensions) append_extension(out, name, value);
  append_data(out, event);
  out += '}';
}

std::string string_member(const std::string& name, std::string_view value) {
  if (!value.starts_with('"')) throw EventError(name, "not a JSON string; send it as a string");
  std::optional<std::string> text = json_string(value);
  if (!text) throw EventError(name, "contains half of a surrogate pair; send whole characters");
  return std::move(*text);
}

Extension extension_member(const std::string& name, std::string_view value) {
  if (value == "true") return true;
  if (value == "false") return false;
  if (value.starts_with('"')) return string_member(name, value);
  if (value.starts_with('{') || value.starts_with('[')) {
    throw EventError(name, "an object or array; send a string, a boolean or an integer");
  }
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size()) {
    throw EventError(name, "not an integer of 32 bits; send other numbers as strings");
  }
  return number;
}

bool is_string_attribute(std::string_view name) noexcept {
  for (const std::string_view own : {"specversion", "id", "source", "type", "subject", "time",
                                     "datacontenttype", "dataschema"}) {
    if (name == own) return true;
  }
  return false;
}

/// `data` as the content type announces it.
void read_data(CloudEvent& event, std::string_view value) {
  const DataKind announced =
      event.datacontenttype ? data_kind_of(*event.datacontenttype) : DataKind::json;
  if (announced == DataKind::json) {
    event.data_kind = DataKind::json;
    event.data = value;
  } else if (value.starts_with('"')) {
    event.data_kind = DataKind::text;
    event.data = string_member("data", value);
  } else if (value != "null") {
    throw EventError(
        "data",
        "not a JSON string, although datacontenttype does not announce JSON; send text as a "
        "string, and bytes as data_base64");
  }
}

/// The members of the data.
struct DataMembers {
  std::optional<std::string_view> plain = {};
  std::optional<std::string_view> base64 = {};
  std::string_view around = {};  ///< `plain` with its blanks, where JSON keeps them
};

void read_all_data(CloudEvent& event, const DataMembers& members) {
  if (members.plain && members.base64) {
    throw EventError("data_base64", "given together with data; send one of them");
  }
  if (members.plain) read_data(event, *members.plain);
  if (!members.base64) return;
  std::optional<std::string> bytes = decode_base64(string_member("data_base64", *members.base64));
  if (!bytes)
    throw EventError("data_base64",
                     "not base64 with padding; encode the bytes by RFC 4648, section 4");
  event.data_kind = DataKind::binary;
  event.data = std::move(*bytes);
}

void read_member(CloudEvent& event, DataMembers& data, const std::string& name,
                 std::string_view value) {
  if (name == "data") {
    data.plain = value;
  } else if (name == "data_base64") {
    if (value != "null") data.base64 = value;
  } else if (is_string_attribute(name)) {
    if (value != "null") set_attribute(event, name, string_member(name, value));
  } else {
    check_extension_name(name);
    if (value != "null") event.extensions.emplace(name, extension_member(name, value));
  }
}

/// `value`, a part of `text`, with the blanks up to the signs before and behind it.
std::string_view with_blanks(std::string_view value, std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  std::size_t begin = static_cast<std::size_t>(value.data() - text.data());
  std::size_t end = begin + value.size();
  while (begin > 0 && blank(text[begin - 1])) --begin;
  while (end < text.size() && blank(text[end])) ++end;
  return text.substr(begin, end - begin);
}

enum class Blanks { dropped, kept };

CloudEvent read_event(std::string_view text, Blanks around_data) {
  const auto parts = split_json_object(text);
  if (!parts) {
    throw EventError("event", "not a JSON object of at most " + std::to_string(max_json_depth) +
                                  " levels in UTF-8; send each event as one object");
  }
  CloudEvent event;
  DataMembers data;
  bool has_version = false;
  std::set<std::string, std::less<>> seen;
  for (const JsonPart& part : *parts) {
    std::optional<std::string> name = unescape_json(part.name);
    if (!name)
      throw EventError(
          "event", "the name of a member contains half of a surrogate pair; send whole characters");
    if (!seen.insert(*name).second) throw EventError(printable(*name), "given twice; send it once");
    read_member(event, data, *name, part.value);
    if (*name == "data" && around_data == Blanks::kept) data.around = with_blanks(part.value, text);
    has_version |= *name == "specversion" && part.value != "null";
  }
  if (!has_version) throw EventError("specversion", "missing; send \"specversion\": \"1.0\"");
  read_all_data(event, data);
  if (event.data_kind == DataKind::json && !data.around.empty()) event.data = data.around;
  event.check();
  return event;
}

}  // namespace

std::string to_json(const CloudEvent& event) {
  std::string out;
  out.reserve(256 + event.data.size());
  append_event(out, event);
  return out;
}

std::string to_json(std::span<const CloudEvent> batch) {
  std::string out = "[";
  for (const CloudEvent& event : batch) {
    if (out.size() > 1) out += ',';
    append_event(out, event);
  }
  return out + ']';
}

CloudEvent event_from_json(std::string_view text) { return read_event(text, Blanks::dropped); }

CloudEvent event_from_stored(std::string_view envelope) {
  return read_event(envelope, Blanks::kept);
}

std::vector<CloudEvent> events_from_json(std::string_view batch, std::size_t max_events) {
  const auto parts = split_json_array(batch);
  if (!parts) {
    throw EventError("batch", "not a JSON array of at most " + std::to_string(max_json_depth) +
                                  " levels in UTF-8; send the events as one array");
  }
  if (parts->size() > max_events) {
    throw EventError("batch", std::to_string(parts->size()) + " events, at most " +
                                  std::to_string(max_events) +
                                  " are allowed; send smaller batches");
  }
  std::vector<CloudEvent> events;
  events.reserve(parts->size());
  for (const JsonPart& part : *parts) {
    try {
      events.push_back(read_event(part.value, Blanks::dropped));
    } catch (const EventError& error) {
      const std::string why = std::string{error.what()}.substr(error.attribute().size() + 2);
      throw EventError(error.attribute(),
                       why + " (event " + std::to_string(events.size() + 1) + " of the batch)");
    }
  }
  return events;
}

}  // namespace twinbox
