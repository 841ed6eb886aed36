// What is read of a request, within its bounds, and the answer to what cannot be read. No sockets.
#pragma once

#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <optional>

#include "daemon/config.hpp"
#include <twinbox/http.hpp>

namespace twinbox::app {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

/// For a parser that has read nothing yet, and the buffer that it reads from.
void set_limits(RequestParser& parser, boost::beast::flat_buffer& buffer, const LimitConfig& limit);

/// Some clients end a body with a line break that does not belong to it (RFC 9112, 2.2).
void skip_empty_lines(boost::beast::flat_buffer& buffer);

/// As much of the head as has been read. `loopback`: the peer is this machine; what a proxy brings
/// is from elsewhere all the same.
HttpRequest head_of(const RequestParser& parser, bool loopback);

/// The answer to a head that lets one reader see another body than the next: a coding that is not
/// known here, or two lengths. Then nothing behind it can be trusted. Empty: it is clear.
std::optional<HttpResponse> refuse_framing(const RequestParser& parser);

/// How many bytes the body may have, once the head is there. Empty: it says itself that they are
/// more than the limit.
std::optional<std::size_t> room_for_body(const RequestParser& parser, const LimitConfig& limit);

/// Nothing of the request is still on its way: another one may follow.
bool is_whole(const RequestParser& parser);

/// The answer before the connection is closed. Empty: nobody is there to read one.
std::optional<HttpResponse> refusal_of(const boost::beast::error_code& error,
                                       const LimitConfig& limit);

boost::beast::error_code body_too_large();

}  // namespace twinbox::app
