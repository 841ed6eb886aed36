#include "transport/nats/headers.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace twinbox::nats {
namespace {

constexpr std::string_view version = "NATS/1.0";
constexpr std::string_view line_end = "\r\n";

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Takes the next line off `text`, without its end.
std::string_view next_line(std::string_view& text) noexcept {
  const std::size_t end = std::min(text.find(line_end), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + line_end.size(), text.size()));
  return line;
}

void read_line(Headers& headers, std::string_view line) {
  if (line.find('\0') != std::string_view::npos) {
    headers.fault = "a header holds a zero byte; let its sender remove it";
    return;
  }
  const bool continues = line.front() == ' ' || line.front() == '\t';
  if (continues && !headers.list.empty()) {
    headers.list.back().second.append(" ").append(trim(line));
    return;
  }
  const std::size_t colon = line.find(':');
  if (continues || colon == 0 || colon == std::string_view::npos) {
    headers.fault = "a header line has no name and colon; let its sender write name: value";
    return;
  }
  headers.list.emplace_back(line.substr(0, colon), trim(line.substr(colon + 1)));
}

}  // namespace

std::string_view Headers::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(list, name, [](const auto& one) { return one.first; });
  return found == list.end() ? std::string_view{} : std::string_view{found->second};
}

Headers parse_headers(std::string_view text) {
  Headers headers;
  if (text.empty()) return headers;
  const std::string_view first = next_line(text);
  if (!first.starts_with(version)) {
    headers.fault = "the headers do not begin with NATS/1.0; let their sender write that";
    return headers;
  }
  const std::string_view inlined = trim(first.substr(version.size()));
  headers.status = inlined.substr(0, 3);
  headers.description = trim(inlined.substr(headers.status.size()));
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (!line.empty()) read_line(headers, line);
  }
  return headers;
}

Headers read_headers(const natsMsg& message) {
  // No function returns the bytes. They are in one block with the subject, the reply subject and
  // the data, each but the last followed by a zero: so in every release from 3.0 to 3.13.
  static_assert(NATS_VERSION_MAJOR == 3, "see whether natsMsg_create still makes one block");
  const char* before = natsMsg_GetReply(&message);
  if (before == nullptr) before = natsMsg_GetSubject(&message);
  const char* const begin = before + std::strlen(before) + 1;
  const char* const data = natsMsg_GetData(&message);
  if (data <= begin) return {};
  return parse_headers({begin, static_cast<std::size_t>(data - 1 - begin)});
}

void add_headers(natsMsg& message, WireHeaders list) {
  // The library appends the value to an existing header with the same prefix: the shorter names
  // must come first.
  std::ranges::stable_sort(list, {}, [](const auto& one) { return one.first.size(); });
  for (const auto& [name, value] : list) {
    if (natsMsgHeader_Add(&message, name.c_str(), value.c_str()) != NATS_OK) throw std::bad_alloc();
  }
}

}  // namespace twinbox::nats
