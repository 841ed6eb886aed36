#include "daemon/stats/tracer.hpp"

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

TEST(Otlp, has_the_shape_that_collectors_read) {
  const auto parent =
      TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  ASSERT_TRUE(parent);
  Span span{.context = *parent, .parent = *parent, .name = "GET /x", .started = {}};
  span.context.span_id = {1, 2, 3, 4, 5, 6, 7, 8};
  span.started = std::chrono::system_clock::time_point{std::chrono::seconds{2}};
  span.took = std::chrono::microseconds{3};
  span.attributes = {{"http.route", "/x"}};
  span.error = "away";
  EXPECT_EQ(otlp_json({&span, 1}, "box"),
            R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":)"
            R"({"stringValue":"box"}}]},"scopeSpans":[{"scope":{"name":"twinbox"},"spans":[)"
            R"({"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"0102030405060708",)"
            R"("name":"GET /x","kind":2,"startTimeUnixNano":"2000000000",)"
            R"("endTimeUnixNano":"2000003000","attributes":[{"key":"http.route","value":)"
            R"({"stringValue":"/x"}}],"parentSpanId":"b7ad6b7169203331","status":)"
            R"({"code":2,"message":"away"}}]}]}]})");
}

TEST(Tracer, without_an_endpoint_it_does_nothing) {
  Tracer tracer{{}, {}};
  EXPECT_FALSE(tracer.enabled());
  tracer.add({.context = {}, .name = "x", .started = {}});
  EXPECT_EQ(tracer.sent() + tracer.dropped(), 0u);
}

}  // namespace
}  // namespace twinbox::app
