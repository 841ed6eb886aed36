#include "twinbox/http.hpp"

#include <gtest/gtest.h>

namespace twinbox {
namespace {

TEST(HttpHeaders, finds_a_name_whatever_its_case) {
  const HttpHeaders headers{{"Content-Type", "text/plain"}, {"ce-id", "1"}};
  EXPECT_EQ(headers.find("content-TYPE"), "text/plain");
  EXPECT_EQ(headers.find("CE-ID"), "1");
  EXPECT_FALSE(headers.find("ce-i"));
}

TEST(HttpHeaders, keeps_every_field_of_a_name_until_it_is_set) {
  HttpHeaders headers{{"X-Signature", "old"}, {"Date", "d"}, {"x-signature", "new"}};
  EXPECT_EQ(headers.all("X-SIGNATURE"), (std::vector<std::string_view>{"old", "new"}));
  headers.set("X-Signature", "one");
  EXPECT_EQ(headers.all("x-signature"), (std::vector<std::string_view>{"one"}));
  EXPECT_EQ(headers.find("Date"), "d");
}

TEST(Problem, is_a_document_that_names_what_is_wrong) {
  const HttpResponse answer = problem(400, "Bad Request", "the attribute \"id\" is missing");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.headers.find("Content-Type"), "application/problem+json");
  EXPECT_EQ(answer.body, R"({"type":"about:blank","title":"Bad Request","status":400,)"
                         R"("detail":"the attribute \"id\" is missing"})");
}

TEST(Problem, leaves_out_a_detail_that_says_nothing) {
  EXPECT_EQ(problem(404, "Not Found", "").body,
            R"({"type":"about:blank","title":"Not Found","status":404})");
}

}  // namespace
}  // namespace twinbox
