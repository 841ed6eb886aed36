#include "daemon/http/request_parser.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/http/error.hpp>
#include <iterator>
#include <string>

#include "daemon/http/response_text.hpp"

namespace twinbox::app {

namespace http = boost::beast::http;

namespace {

/// `http://host/path` as clients send it that take us for their proxy: the host in it counts, not
/// that of the header (RFC 9112).
void take_apart_absolute(HttpRequest& request) {
  const std::size_t scheme = request.target.find("://");
  if (request.target.starts_with('/') || scheme == std::string::npos) return;
  if (request.headers.all("Host").size() > 1) return;  // is refused, wherever it leads
  const std::string name = request.target.substr(0, scheme);
  if (!boost::beast::iequals(name, "http") && !boost::beast::iequals(name, "https")) return;
  const std::string rest = request.target.substr(scheme + 3);
  const std::size_t path = std::min(rest.find_first_of("/?"), rest.size());
  request.headers.set("Host", rest.substr(0, path));
  request.target = (rest.substr(path, 1) == "/" ? "" : "/") + rest.substr(path);
}

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         boost::beast::iequals({text.data(), prefix.size()}, {prefix.data(), prefix.size()});
}

/// Added by proxies and content networks, and by nothing else. Beginnings of names.
constexpr std::array<std::string_view, 35> proxy_headers{
    "Forwarded",      "Via",          "X-Forwarded",
    "X-Real-IP",      "X-Client-IP",  "X-Cluster-Client-IP",
    "X-Original-",    "X-ProxyUser-", "X-Envoy-",
    "X-Amzn-",        "X-Amz-Cf-",    "X-Azure-",
    "X-ARR-",         "X-AppEngine-", "X-Cloud-",
    "True-Client-IP", "Client-IP",    "CF-",
    "CDN-",           "Fastly-",      "Fly-",
    "Proxy-",         "CloudFront-",  "Akamai-",
    "X-Akamai-",      "X-Varnish",    "Tailscale-",
    "X-Vercel-",      "X-NF-",        "Front-End-Https",
    "X-Scheme",       "X-Url-Scheme", "X-Host",
    "X-Remote-",      "X-Proxy-"};

/// A proxy on this machine brings requests from elsewhere. It shows by its headers, by a Host that
/// is not this machine's own name for itself, or by HTTP/1.0, which nginx speaks to its backends
/// unless told otherwise.
bool may_be_forwarded(const HttpRequest& request, unsigned version) {
  if (version < 11 || !names_loopback(request.headers.find("Host").value_or(""))) return true;
  return std::ranges::any_of(request.headers, [](const HttpHeaders::Field& field) {
    return std::ranges::any_of(
        proxy_headers, [&](std::string_view name) { return begins_with(field.name, name); });
  });
}

}  // namespace

bool names_loopback(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, std::min(host.find(']'), host.size()) - 1);
  } else {
    host = host.substr(0, host.rfind(':'));
  }
  if (boost::beast::iequals({host.data(), host.size()}, "localhost")) return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string{host}, error);
  return !error && address.is_loopback();
}

void GrowingBody::reader::take(std::string_view bytes, boost::beast::error_code& error) {
  if (bytes.size() > body_.limit - body_.text.size()) {
    error = body_too_large();
  } else if (body_.reserve && !body_.reserve(bytes.size())) {
    error = no_room_for_body();
  } else {
    error = {};
    body_.text += bytes;
  }
}

void set_limits(RequestParser& parser, boost::beast::flat_buffer& buffer,
                const LimitConfig& limit) {
  parser.header_limit(static_cast<std::uint32_t>(limit.header_bytes));
  parser.body_limit(limit.body_bytes);
  parser.get().body().limit = limit.body_bytes;
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
  take_apart_absolute(request);
  request.loopback = loopback && !may_be_forwarded(request, head.version());
  return request;
}

std::optional<HttpResponse> refuse_framing(const RequestParser& parser) {
  const auto& head = parser.get();
  if (head.version() >= 11 && head.count(http::field::host) == 0) {
    return problem(400, "Bad Request", "an HTTP/1.1 request needs exactly one Host header");
  }
  const auto codings = head.equal_range(http::field::transfer_encoding);
  if (codings.first == codings.second) return {};
  const bool chunked = std::next(codings.first) == codings.second &&
                       boost::beast::iequals(codings.first->value(), "chunked");
  if (!chunked) {
    return problem(501, "Not Implemented",
                   "the only supported Transfer-Encoding is a single chunked");
  }
  if (head.version() < 11 || head.count(http::field::content_length) > 0) {
    return problem(
        400, "Bad Request",
        "the body has an ambiguous length; send either Content-Length or, in HTTP/1.1, chunks");
  }
  return {};
}

bool fits(const RequestParser& parser) {
  return parser.content_length().value_or(0) <= parser.get().body().limit;
}

std::chrono::steady_clock::duration body_read_timeout(std::chrono::steady_clock::duration elapsed,
                                                      std::size_t bytes, const LimitConfig& limit) {
  if (limit.body_rate == 0) return limit.body_timeout - elapsed;
  const std::chrono::milliseconds earned{static_cast<std::int64_t>(bytes * 1000 / limit.body_rate)};
  const std::chrono::steady_clock::duration whole =
      std::min(limit.body_timeout, limit.header_timeout + earned);
  return std::min<std::chrono::steady_clock::duration>(whole - elapsed, limit.header_timeout);
}

bool is_whole(const RequestParser& parser) {
  return parser.is_done() || parser.content_length().value_or(1) == 0;
}

std::optional<HttpResponse> refusal_of(const boost::beast::error_code& error,
                                       const LimitConfig& limit, std::size_t body_limit) {
  if (error == no_room_for_body()) {
    return busy("the memory for request bodies is exhausted; repeat the request later");
  }
  const auto& category = make_error_code(http::error::end_of_stream).category();
  if (error.category() != category || error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    return {};
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return problem(431, "Request Header Fields Too Large",
                   "the request header exceeds " + std::to_string(limit.header_bytes) +
                       " bytes; raise limit.header_bytes");
  }
  if (error == http::error::body_limit) {
    return problem(413, "Content Too Large",
                   "the request body exceeds " +
                       std::to_string(std::min(body_limit, limit.body_bytes)) + " bytes" +
                       (body_limit < limit.body_bytes ? ", the limit of this path"
                                                      : "; raise limit.body_bytes"));
  }
  return problem(400, "Bad Request",
                 "not a valid HTTP/1.0 or HTTP/1.1 request: " + error.message());
}

boost::beast::error_code body_too_large() { return make_error_code(http::error::body_limit); }

boost::beast::error_code no_room_for_body() {
  return make_error_code(boost::system::errc::not_enough_memory);
}

}  // namespace twinbox::app
