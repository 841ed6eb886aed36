#include "daemon/http/response_text.hpp"

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr Instant example{784111777s};

TEST(ResponseText, writes_a_date_as_http_does) {
  EXPECT_EQ(http_date(example), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(Instant{951782400s - 1us}), "Mon, 28 Feb 2000 23:59:59 GMT");
  EXPECT_EQ(http_date(Instant{951782400s}), "Tue, 29 Feb 2000 00:00:00 GMT");
}

TEST(ResponseText, says_what_becomes_of_the_connection) {
  const HttpResponse response{200, {{"X", "a\r\nY: b"}}, "body"};
  const std::string head =
      "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX: aY: b\r\nContent-Length: 4\r\n";
  EXPECT_EQ(response_text(response, example, ConnectionMode::keep, false), head + "\r\nbody");
  EXPECT_EQ(response_text(response, example, ConnectionMode::keep_with_header, false),
            head + "Connection: keep-alive\r\n\r\nbody");
  EXPECT_EQ(response_text(response, example, ConnectionMode::close, true),
            head + "Connection: close\r\n\r\n");
}

}  // namespace
}  // namespace twinbox::app
