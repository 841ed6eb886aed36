#include "twinbox/http.hpp"

#include <algorithm>
#include <utility>

#include "core/encoding.hpp"
#include "core/json.hpp"

namespace twinbox {
namespace {

bool same_name(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, {}, ascii_lower, ascii_lower);
}

}  // namespace

std::optional<std::string_view> HttpHeaders::find(std::string_view name) const noexcept {
  for (const Field& field : fields_) {
    if (same_name(field.name, name)) return field.value;
  }
  return {};
}

std::vector<std::string_view> HttpHeaders::all(std::string_view name) const {
  std::vector<std::string_view> found;
  for (const Field& field : fields_) {
    if (same_name(field.name, name)) found.push_back(field.value);
  }
  return found;
}

void HttpHeaders::add(std::string name, std::string value) {
  fields_.push_back({std::move(name), std::move(value)});
}

void HttpHeaders::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const Field& field) { return same_name(field.name, name); });
  add(std::string{name}, std::move(value));
}

HttpResponse problem(int status, std::string_view title, std::string_view detail) {
  std::string body = R"({"type":"about:blank","title":)";
  append_json_string(body, title);
  body += R"(,"status":)" + std::to_string(status);
  if (!detail.empty()) {
    body += R"(,"detail":)";
    append_json_string(body, detail);
  }
  body += '}';
  return {status, {{"Content-Type", "application/problem+json"}}, std::move(body)};
}

HttpResponse json_response(int status, std::string body) {
  return {status, {{"Content-Type", "application/json"}}, std::move(body)};
}

}  // namespace twinbox
