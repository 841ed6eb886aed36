#include "daemon/request_parser.hpp"

#include <boost/asio/buffer.hpp>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

/// The status that the framing of this head is refused with; 0: it is clear.
int framing(const std::string& line, const std::string& version = "1.1") {
  const std::string text = "POST /a HTTP/" + version + "\r\nHost: localhost\r\n" + line + "\r\n";
  RequestParser parser;
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(text), error);
  if (error) return refusal_of(error, {})->status;
  const auto refusal = refuse_framing(parser);
  return refusal ? refusal->status : 0;
}

TEST(RequestParser, a_body_has_one_length_whoever_reads_it) {
  EXPECT_EQ(framing(""), 0);
  EXPECT_EQ(framing("Content-Length: 3\r\n"), 0);
  EXPECT_EQ(framing("Transfer-Encoding: chunked\r\n"), 0);
  EXPECT_EQ(framing("Transfer-Encoding: Chunked\r\n"), 0);
  EXPECT_EQ(framing("Transfer-Encoding: gzip\r\n"), 501);
  EXPECT_EQ(framing("Transfer-Encoding: gzip, chunked\r\n"), 501);
  EXPECT_EQ(framing("Transfer-Encoding: chunked, chunked\r\n"), 501);
  EXPECT_EQ(framing("Transfer-Encoding: chunked\r\n", "1.0"), 400);
  EXPECT_EQ(framing("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), 400);
}

// Found by fuzzing: a coding that nobody knows was passed over, and the length beside it believed.
TEST(RequestParser, a_coding_that_is_unknown_beside_a_length_is_refused) {
  EXPECT_EQ(framing("Transfer-Encoding: chun\xff\r\nContent-Length: 3\r\n"), 501);
}

bool from_this_machine(const std::string& line) {
  const std::string text = "POST /a HTTP/1.1\r\nHost: localhost\r\n" + line + "\r\n";
  RequestParser parser;
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(text), error);
  return head_of(parser, true).loopback;
}

TEST(RequestParser, what_a_proxy_on_this_machine_brings_is_from_elsewhere) {
  EXPECT_TRUE(from_this_machine(""));
  EXPECT_FALSE(from_this_machine("Forwarded: for=192.0.2.1\r\n"));
  EXPECT_FALSE(from_this_machine("x-forwarded-for: 192.0.2.1\r\n"));
  EXPECT_FALSE(from_this_machine("X-Real-IP: 192.0.2.1\r\n"));
}

TEST(RequestParser, what_cannot_be_read_is_answered_unless_nobody_is_there) {
  namespace http = boost::beast::http;
  const auto status = [](http::error error) {
    const auto refusal = refusal_of(make_error_code(error), {});
    return refusal ? refusal->status : 0;
  };
  EXPECT_EQ(status(http::error::header_limit), 431);
  EXPECT_EQ(status(http::error::body_limit), 413);
  EXPECT_EQ(status(http::error::bad_method), 400);
  EXPECT_EQ(status(http::error::end_of_stream), 0);
  EXPECT_EQ(status(http::error::partial_message), 0);
}

}  // namespace
}  // namespace twinbox::app
