#include "daemon/http/response_text.hpp"

#include <array>
#include <boost/beast/http/status.hpp>
#include <chrono>
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

std::string http_date(Instant at) {
  using namespace std::chrono;
  constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto midnight = floor<std::chrono::days>(at);
  const year_month_day date{midnight};
  const hh_mm_ss time{floor<seconds>(at) - midnight};
  const auto number = [](auto value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  return std::string{days.at(weekday{midnight}.c_encoding())} + ", " +
         number(static_cast<unsigned>(date.day())) + " " +
         months.at(static_cast<unsigned>(date.month()) - 1) + " " +
         std::to_string(static_cast<int>(date.year())) + " " + number(time.hours().count()) + ":" +
         number(time.minutes().count()) + ":" + number(time.seconds().count()) + " GMT";
}

std::string response_text(const HttpResponse& response, Instant now, ConnectionMode afterwards,
                          bool head_only) {
  std::string text;
  text.reserve(256 + response.body.size());
  text += "HTTP/1.1 " + std::to_string(response.status) + " " + title_of(response.status) + "\r\n";
  text += "Date: " + http_date(now) + "\r\n";
  for (const HttpHeaders::Field& field : response.headers) {
    append_clean(text, field.name);
    text += ": ";
    append_clean(text, field.value);
    text += "\r\n";
  }
  if (response.status != 204 && response.status != 304) {
    text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  }
  if (afterwards == ConnectionMode::close) text += "Connection: close\r\n";
  if (afterwards == ConnectionMode::keep_with_header) text += "Connection: keep-alive\r\n";
  text += "\r\n";
  if (!head_only && response.status != 204 && response.status != 304) text += response.body;
  return text;
}

}  // namespace twinbox::app
