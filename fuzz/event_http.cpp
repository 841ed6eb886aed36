// The HTTP binding of CloudEvents. The input is lines of `name:value`, an empty line, the body.
#include "require.hpp"
#include <twinbox/event.hpp>

using namespace twinbox;

namespace {

HttpContent request_of(std::string_view text) {
  HttpContent content;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    content.headers.add(std::string{line.substr(0, colon)}, std::string{line.substr(colon + 1)});
  }
  content.body = text;
  return content;
}

CloudEvent read_one(const HttpContent& content) {
  const auto events = events_from_http(content.headers, content.body);
  require(events.size() == 1, "one event is one event");
  return events[0];
}

void check_headers(const HttpContent& content) {
  for (const HttpHeaders::Field& field : content.headers) {
    for (const char c : field.value) {
      require(c >= ' ' && c <= '~', "a header holds visible characters only");
    }
  }
}

/// What structured mode can carry: a JSON value without the blanks around it.
CloudEvent without_blanks(CloudEvent event) {
  if (event.data_kind != DataKind::json) return event;
  constexpr const char* blanks = " \t\r\n";
  event.data.erase(event.data.find_last_not_of(blanks) + 1);
  event.data.erase(0, event.data.find_first_not_of(blanks));
  return event;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const HttpContent request = request_of(text_of(data, size));
  try {
    for (const CloudEvent& event : events_from_http(request.headers, request.body, 100)) {
      require(read_one(to_http(event, ContentMode::structured)) == without_blanks(event),
              "structured mode keeps everything");
      const HttpContent binary = to_http(event, ContentMode::binary);
      check_headers(binary);
      const CloudEvent again = read_one(binary);
      require(again.id == event.id && again.data == event.data, "binary mode keeps id and data");
      require(read_one(to_http(again)) == again, "binary mode settles");
      static_cast<void>(to_arrival(event));
    }
  } catch (const EventError&) {
  }
  return 0;
}
