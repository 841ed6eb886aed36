#include "daemon/response_text.hpp"

#include <boost/beast/http/status.hpp>
#include <ostream>  // the next one needs it

namespace twinbox::app {
namespace {

void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) out += c;
  }
}

}  // namespace

std::string title_of(int status) {
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(status)));
  return {reason.data(), reason.size()};
}

HttpResponse busy(std::string_view why) {
  HttpResponse response = problem(503, title_of(503), why);
  response.headers.add("Retry-After", "1");
  return response;
}

std::string response_text(const HttpResponse& response, bool keep_alive, bool head_only) {
  std::string text;
  text.reserve(256 + response.body.size());
  text += "HTTP/1.1 " + std::to_string(response.status) + " " + title_of(response.status) + "\r\n";
  for (const HttpHeaders::Field& field : response.headers) {
    append_clean(text, field.name);
    text += ": ";
    append_clean(text, field.value);
    text += "\r\n";
  }
  if (response.status != 204 && response.status != 304) {
    text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  }
  text += keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  if (!head_only && response.status != 204 && response.status != 304) text += response.body;
  return text;
}

}  // namespace twinbox::app
