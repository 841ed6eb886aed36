// Headers of NATS from their bytes.
#include <gtest/gtest.h>

#include "transport/nats/headers.hpp"

namespace twinbox::nats {
namespace {

TEST(NatsHeaders, a_message_without_headers_has_none) {
  const Headers headers = parse_headers("");
  EXPECT_TRUE(headers.list.empty());
  EXPECT_TRUE(headers.fault.empty());
}

TEST(NatsHeaders, values_are_trimmed_and_may_be_empty) {
  const Headers headers = parse_headers("NATS/1.0\r\na:\r\nb: x: y \r\nc:\t1\r\nd: \r\n\r\n");
  EXPECT_EQ(headers.list, (WireHeaders{{"a", ""}, {"b", "x: y"}, {"c", "1"}, {"d", ""}}));
  EXPECT_TRUE(headers.fault.empty());
  EXPECT_EQ(headers.find("b"), "x: y");
  EXPECT_EQ(headers.find("B"), "");
}

TEST(NatsHeaders, a_name_may_come_several_times_and_a_line_may_be_continued) {
  const Headers headers = parse_headers("NATS/1.0\r\nabc: 1\r\na: 2\r\nabc: 3\r\n  and 4\r\n\r\n");
  EXPECT_EQ(headers.list, (WireHeaders{{"abc", "1"}, {"a", "2"}, {"abc", "3 and 4"}}));
  EXPECT_EQ(headers.find("abc"), "1");
}

TEST(NatsHeaders, the_server_says_a_status_and_what_it_means) {
  const Headers headers = parse_headers("NATS/1.0 409 Consumer Deleted\r\nNats-Left: 1\r\n\r\n");
  EXPECT_EQ(headers.status, "409");
  EXPECT_EQ(headers.description, "Consumer Deleted");
  EXPECT_EQ(parse_headers("NATS/1.0 404\r\n\r\n").status, "404");
}

TEST(NatsHeaders, what_is_no_header_is_named_and_the_others_are_kept) {
  for (const std::string_view line : {"no colon", ": no name", " continues nothing"}) {
    const Headers headers = parse_headers("NATS/1.0\r\n" + std::string{line} + "\r\na: 1\r\n\r\n");
    EXPECT_NE(headers.fault.find("name: value"), std::string::npos) << line;
    EXPECT_EQ(headers.list, (WireHeaders{{"a", "1"}})) << line;
  }
  EXPECT_NE(parse_headers("HTTP/1.0\r\n\r\n").fault.find("NATS/1.0"), std::string::npos);
  using namespace std::string_view_literals;
  EXPECT_NE(parse_headers("NATS/1.0\r\na: 1\0002\r\n\r\n"sv).fault.find("zero byte"),
            std::string::npos);
}

}  // namespace
}  // namespace twinbox::nats
