#include "daemon/request_parser.hpp"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <iterator>
#include <string>

namespace twinbox::app {

namespace http = boost::beast::http;

namespace {

/// `http://host/path` as clients send it that take us for their proxy: the host in it counts, not
/// that of the header (RFC 9112).
void take_apart_absolute(HttpRequest& request) {
  const std::size_t scheme = request.target.find("://");
  if (request.target.starts_with('/') || scheme == std::string::npos) return;
  if (request.headers.all("Host").size() != 1) return;  // is refused, wherever it leads
  const std::string name = request.target.substr(0, scheme);
  if (!boost::beast::iequals(name, "http") && !boost::beast::iequals(name, "https")) return;
  const std::string rest = request.target.substr(scheme + 3);
  const std::size_t path = std::min(rest.find_first_of("/?"), rest.size());
  request.headers.set("Host", rest.substr(0, path));
  request.target = (rest.substr(path, 1) == "/" ? "" : "/") + rest.substr(path);
}

}  // namespace

void set_limits(RequestParser& parser, boost::beast::flat_buffer& buffer,
                const LimitConfig& limit) {
  parser.header_limit(static_cast<std::uint32_t>(limit.header_bytes));
  parser.body_limit(limit.body_bytes);
  buffer.max_size(limit.header_bytes + 65536);
}

void skip_empty_lines(boost::beast::flat_buffer& buffer) {
  const auto begins_with_one = [&] {
    const auto* bytes = static_cast<const char*>(buffer.data().data());
    return buffer.size() >= 2 && bytes[0] == '\r' && bytes[1] == '\n';
  };
  while (begins_with_one()) buffer.consume(2);
}

HttpRequest head_of(const RequestParser& parser, bool loopback) {
  const auto& head = parser.get();
  HttpRequest request{.method = std::string(head.method_string()),
                      .target = std::string(head.target()),
                      .loopback = loopback};
  for (const auto& field : head) {
    request.headers.add(std::string(field.name_string()), std::string(field.value()));
  }
  // A proxy on this machine brings requests from elsewhere.
  for (const char* name : {"Forwarded", "X-Forwarded-For", "X-Real-IP"}) {
    if (head.count(name) > 0) request.loopback = false;
  }
  take_apart_absolute(request);
  return request;
}

std::optional<HttpResponse> refuse_framing(const RequestParser& parser) {
  const auto& head = parser.get();
  const auto codings = head.equal_range(http::field::transfer_encoding);
  if (codings.first == codings.second) return {};
  const bool chunked = std::next(codings.first) == codings.second &&
                       boost::beast::iequals(codings.first->value(), "chunked");
  if (!chunked) {
    return problem(501, "Not Implemented",
                   "Transfer-Encoding: chunked, once, is all that is known");
  }
  if (head.version() < 11 || head.count(http::field::content_length) > 0) {
    return problem(400, "Bad Request", "a body has one length: Content-Length, or chunks of 1.1");
  }
  return {};
}

std::optional<std::size_t> room_for_body(const RequestParser& parser, const LimitConfig& limit) {
  const auto length = parser.content_length();
  if (length && *length > limit.body_bytes) return {};
  if (length) return static_cast<std::size_t>(*length);
  return parser.chunked() ? limit.body_bytes : 0;
}

bool is_whole(const RequestParser& parser) {
  return parser.is_done() || parser.content_length().value_or(1) == 0;
}

std::optional<HttpResponse> refusal_of(const boost::beast::error_code& error,
                                       const LimitConfig& limit) {
  const auto& category = make_error_code(http::error::end_of_stream).category();
  if (error.category() != category || error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    return {};
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return problem(431, "Request Header Fields Too Large",
                   "the header has more than " + std::to_string(limit.header_bytes) +
                       " bytes; limit.header_bytes allows more");
  }
  if (error == http::error::body_limit) {
    return problem(413, "Content Too Large",
                   "the body has more than " + std::to_string(limit.body_bytes) +
                       " bytes; limit.body_bytes allows more");
  }
  return problem(400, "Bad Request", "this is no HTTP/1.1 request: " + error.message());
}

boost::beast::error_code body_too_large() { return make_error_code(http::error::body_limit); }

}  // namespace twinbox::app
