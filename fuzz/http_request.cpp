// The bytes of a connection, as app/daemon/http/connection.hpp reads them: requests one after the
// other, within their bounds, to an endpoint or to a refusal. The first byte says whether they come
// from this machine and in which pieces.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "daemon/access/access.hpp"
#include "daemon/http/request_parser.hpp"
#include "daemon/http/response_text.hpp"
#include "require.hpp"

using namespace twinbox;
using namespace twinbox::app;
namespace asio = boost::asio;
namespace http = boost::beast::http;
using Error = boost::beast::error_code;

namespace {

/// A socket from which so many bytes come at a time.
class Wire {
 public:
  Wire(std::string_view bytes, std::size_t piece) : left_(bytes), piece_(piece) {}

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, Error& error) {
    error = {};
    if (left_.empty()) error = asio::error::eof;
    const std::size_t size =
        asio::buffer_copy(buffers, asio::buffer(left_.data(), std::min(piece_, left_.size())));
    left_.remove_prefix(size);
    return size;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers) {
    Error error;
    return read_some(buffers, error);
  }

 private:
  std::string_view left_;
  std::size_t piece_;
};

LimitConfig a_limit() {
  LimitConfig limit;
  limit.header_bytes = 1024;
  limit.body_bytes = 64;
  return limit;
}

Config a_config() {
  Config config;
  config.access.loopback_without_token = true;
  return config;
}

HttpRouter a_router() {
  const auto echo = [](const EndpointRequest& call) {
    HttpResponse response = problem(200, "OK", call.target.segments.back());
    // A careless endpoint: what a client sent must not become a header of its own.
    for (const auto& [name, value] : call.target.query)
      response.headers.add("X-Echo", name + value);
    return response;
  };
  HttpRouter router;
  router.add({"GET", "/health/live", RequiredAccess::nothing, echo, true});
  router.add({"POST", "/v1/outbox/{topic}", RequiredAccess::send, echo});
  router.add({"POST", "/v1/inbox/{source}/{topic}", RequiredAccess::send, echo});
  router.add({"GET", "/v1/messages/{id}", RequiredAccess::read, echo});
  router.add({"POST", "/v1/messages/requeue", RequiredAccess::operate, echo});
  router.add({"POST", "/webhooks/{endpoint}", RequiredAccess::signature, echo});
  return router;
}

const LimitConfig limit = a_limit();
const HttpRouter router = a_router();
Sessions sessions;
const Access access{a_config(), {{"nobody", Role::admin, std::string(64, '0')}}, sessions};

/// What goes over the wire is one answer and nothing else.
void check_answer(const HttpResponse& response, bool head_only) {
  const std::string text = response_text(response, Instant{}, ConnectionMode::keep, head_only);
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.skip(head_only);
  parser.header_limit(1024 * 1024);
  Error error;
  std::size_t used = 0;
  while (used < text.size() && !parser.is_done()) {
    used += parser.put(asio::buffer(text.data() + used, text.size() - used), error);
    require(!error, "an answer is HTTP");
  }
  require(parser.is_done() && used == text.size(), "an answer is one answer");
  require(parser.get().result_int() == static_cast<unsigned>(response.status), "its status");
  require(head_only || parser.get().body() == response.body, "its body");
}

void check_admitted(const HttpRequest& head, const Match& match) {
  const RequiredAccess need = match.endpoint->need;
  require(need != RequiredAccess::operate && need != RequiredAccess::admin,
          "nobody knows the token");
  require(head.loopback || need == RequiredAccess::nothing || need == RequiredAccess::signature,
          "from elsewhere a token is needed");
  require(!head.headers.find("Content-Length") || !head.headers.find("Transfer-Encoding"),
          "a body has one length");
  const std::size_t hosts = head.headers.all("Host").size();
  require(hosts == 1 || (hosts == 0 && !head.loopback), "a request has one Host");
}

/// One request; false: the connection is closed.
bool serve_one(Wire& wire, boost::beast::flat_buffer& buffer, bool loopback) {
  RequestParser parser;
  set_limits(parser, buffer, limit);
  Error error;
  const auto refuse = [&] {
    const HttpRequest head = parser.got_some() ? head_of(parser, loopback) : HttpRequest{};
    if (const auto refusal = refusal_of(error, limit)) {
      check_answer(*refusal, head.method == "HEAD");
    }
    return false;
  };
  http::read_header(wire, buffer, parser, error);
  if (error) return refuse();
  const HttpRequest head = head_of(parser, loopback);
  if (const auto refusal = refuse_framing(parser)) {
    check_answer(*refusal, head.method == "HEAD");
    return false;
  }
  const EndpointLookup found = router.find(head.method, head.target);
  const bool head_only = head.method == "HEAD";
  if (const auto refusal = access.refuse(head, found)) {
    require(refusal->status >= 400, "a refusal is an error");
    check_answer(*refusal, head_only);
    return is_whole(parser) && parser.get().keep_alive();
  }
  if (!fits(parser)) {
    error = body_too_large();
    return refuse();
  }
  http::read(wire, buffer, parser, error);
  if (error) return refuse();
  require(parser.get().body().text.size() <= limit.body_bytes, "a body fits its room");
  const Match& match = std::get<Match>(found);
  check_admitted(head, match);
  check_answer(match.endpoint->call({head, match.target, access.actor(head)}), head_only);
  return parser.get().keep_alive();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] / 2;
  Wire wire{text_of(data + 1, size - 1), piece == 0 ? size : piece};
  boost::beast::flat_buffer buffer;
  while (serve_one(wire, buffer, data[0] % 2 == 1)) {
  }
  return 0;
}
