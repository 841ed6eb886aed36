// The rules of the CloudEvents specification for attribute names and values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/encoding.hpp"
#include "twinbox/event.hpp"

namespace twinbox {

/// An external name as an error may show it: truncated, without control characters.
std::string printable(std::string_view name);
/// Throws EventError unless `name` can be an extension's.
void check_extension_name(std::string_view name);
/// Throws EventError unless `value` is a String of the specification: UTF-8 without control
/// characters and noncharacters.
void check_string(std::string_view attribute, std::string_view value);
/// The same, and it must hold something, at most `limit` UTF-16 code units.
void check_not_empty(std::string_view attribute, std::string_view value, std::size_t limit);
/// A URI reference (RFC 3986); `absolute`: with a scheme.
bool is_uri(std::string_view text, bool absolute) noexcept;
/// `type/subtype` with parameters (RFC 2046).
bool is_media_type(std::string_view text) noexcept;

/// `type/subtype` in lower case, without parameters and blanks.
std::string media_type(std::string_view content_type);
/// The parameter's value in lower case; empty: it has none.
std::optional<std::string> media_type_parameter(std::string_view content_type,
                                                std::string_view name);
/// The kind of data that a content type announces.
DataKind data_kind_of(std::string_view content_type);

/// Sets a member of `event` that is not an extension, or an extension. Throws EventError.
void set_attribute(CloudEvent& event, const std::string& name, std::string value);

/// The event of an envelope that to_json has written: JSON data keeps the surrounding blanks, so
/// that the bytes of binary mode are unchanged. Throws EventError.
CloudEvent event_from_stored(std::string_view envelope);

/// The attributes of an event in binary mode, in one order for every wire.
struct BinaryAttributes {
  std::vector<std::pair<std::string, std::string>> list;  ///< names without a prefix
  std::string content_type;                               ///< empty: none
};
/// Throws EventError for an invalid event.
BinaryAttributes binary_attributes(const CloudEvent& event);

}  // namespace twinbox
