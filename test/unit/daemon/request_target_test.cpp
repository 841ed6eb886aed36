#include "daemon/http/request_target.hpp"

#include <gtest/gtest.h>

#include "daemon/http/http_router.hpp"

namespace twinbox::app {
namespace {

using Segments = std::vector<std::string>;

TEST(RequestTarget, is_taken_apart_and_decoded) {
  const auto target =
      parse_request_target("/v1/outbox/order%2Eplaced%20now?store=a%26b&dry+run=1+2&x");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (Segments{"v1", "outbox", "order.placed now"}));
  EXPECT_EQ(target->find("store"), "a&b");
  EXPECT_EQ(target->find("dry run"), "1 2");
  EXPECT_EQ(target->find("x"), "");
  EXPECT_EQ(target->find("y"), std::nullopt);
}

TEST(RequestTarget, a_slash_that_is_escaped_is_no_separator) {
  EXPECT_EQ(parse_request_target("/a%2Fb/c")->segments, (Segments{"a/b", "c"}));
}

TEST(RequestTarget, a_plus_in_the_path_is_a_plus) {
  EXPECT_EQ(parse_request_target("/a+b")->segments, (Segments{"a+b"}));
}

TEST(RequestTarget, empty_segments_stay) {
  EXPECT_EQ(parse_request_target("/")->segments, (Segments{""}));
  EXPECT_EQ(parse_request_target("//a/")->segments, (Segments{"", "a", ""}));
}

TEST(RequestTarget, what_is_no_path_is_refused) {
  for (const char* text :
       {"", "*", "http://example.org/", "a/b", "/%", "/%4", "/%zz", "/%00", "/a?b=%", "/a?%0=1"}) {
    EXPECT_FALSE(parse_request_target(text)) << text;
  }
}

HttpRouter a_router() {
  const auto answer = [](const EndpointRequest&) { return HttpResponse{}; };
  HttpRouter router;
  router.add({"GET", "/v1/messages", RequiredAccess::read, answer});
  router.add({"GET", "/v1/messages/{id}", RequiredAccess::read, answer});
  router.add({"POST", "/v1/messages/requeue", RequiredAccess::operate, answer});
  router.add({"POST", "/v1/outbox/{topic}", RequiredAccess::send, answer});
  return router;
}

std::string found(const HttpRouter& router, std::string_view method, std::string_view target) {
  const auto result = router.find(method, target);
  if (const Match* match = std::get_if<Match>(&result)) return match->endpoint->path;
  return std::to_string(std::get<HttpResponse>(result).status);
}

TEST(HttpRouter, finds_the_endpoint_by_method_and_path) {
  const HttpRouter router = a_router();
  EXPECT_EQ(found(router, "GET", "/v1/messages?x=1"), "/v1/messages");
  EXPECT_EQ(found(router, "HEAD", "/v1/messages/7"), "/v1/messages/{id}");
  EXPECT_EQ(found(router, "POST", "/v1/messages/requeue"), "/v1/messages/requeue");
  EXPECT_EQ(found(router, "POST", "/v1/outbox/a.b"), "/v1/outbox/{topic}");
}

TEST(HttpRouter, says_what_there_is_not) {
  const HttpRouter router = a_router();
  EXPECT_EQ(found(router, "GET", "/v1"), "404");
  EXPECT_EQ(found(router, "POST", "/v1/outbox/"), "404");
  EXPECT_EQ(found(router, "GET", "/v1/messages/1/2"), "404");
  EXPECT_EQ(found(router, "GET", "/v1/%"), "400");
  EXPECT_EQ(found(router, "DELETE", "/v1/messages/requeue"), "405");
  const auto refusal = std::get<HttpResponse>(router.find("PUT", "/v1/messages/requeue"));
  EXPECT_EQ(refusal.headers.find("Allow"), "GET, HEAD, POST");
}

}  // namespace
}  // namespace twinbox::app
