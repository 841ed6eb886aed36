// What is read of a request, within its bounds, and the answer to what cannot be read. No sockets.
#pragma once

#include <boost/beast/core/buffer_traits.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/optional/optional.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/config/config.hpp"
#include <twinbox/http.hpp>

namespace twinbox::app {

/// A body that grows with the bytes that come, not with those that are announced.
struct GrowingBody {
  struct value_type {
    std::string text = {};
    std::size_t limit = SIZE_MAX;
    std::function<bool(std::size_t bytes)> reserve =
        {};  ///< false: no room; empty: there is always
  };

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& error) {
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::beast::error_code& error) {
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        take({static_cast<const char*>(buffer.data()), buffer.size()}, error);
        if (error) return 0;
      }
      return boost::beast::buffer_bytes(buffers);
    }
    void finish(boost::beast::error_code& error) { error = {}; }

   private:
    void take(std::string_view bytes, boost::beast::error_code& error);

    value_type& body_;
  };
};

using RequestParser = boost::beast::http::request_parser<GrowingBody>;

/// `localhost`, an address in 127.0.0.0/8 or ::1, with or without a port.
bool names_loopback(std::string_view authority);

/// For a parser that has read nothing yet, and the buffer that it reads from.
void set_limits(RequestParser& parser, boost::beast::flat_buffer& buffer, const LimitConfig& limit);

/// Some clients end a body with a line break that does not belong to it (RFC 9112, 2.2).
void skip_empty_lines(boost::beast::flat_buffer& buffer);

/// As much of the head as has been read. `loopback`: the peer is this machine. A request that may
/// have come through a proxy is from elsewhere all the same.
HttpRequest head_of(const RequestParser& parser, bool loopback);

/// The answer to a head that lets one reader see another body than the next: a coding that is not
/// known here, or two lengths. Then nothing behind it can be trusted. HTTP/1.1 without a Host is
/// refused, too. Empty: it is clear.
std::optional<HttpResponse> refuse_framing(const RequestParser& parser);

/// Once the head is there. False: it announces more bytes than the limit of its body.
bool fits(const RequestParser& parser);

/// How long to wait for the next bytes of a body that began `elapsed` ago and of which so many have
/// come. As a whole it may take `header_timeout`, and more with each byte that comes,
/// `body_timeout` at most; in between it may be silent for `header_timeout`.
std::chrono::steady_clock::duration body_read_timeout(std::chrono::steady_clock::duration elapsed,
                                                      std::size_t bytes, const LimitConfig& limit);

/// Nothing of the request is still on its way: another one may follow.
bool is_whole(const RequestParser& parser);

/// The answer before the connection is closed. Empty: the client is gone.
std::optional<HttpResponse> refusal_of(const boost::beast::error_code& error,
                                       const LimitConfig& limit, std::size_t body_limit = SIZE_MAX);

boost::beast::error_code body_too_large();
/// GrowingBody::value_type::reserve said no.
boost::beast::error_code no_room_for_body();

}  // namespace twinbox::app
