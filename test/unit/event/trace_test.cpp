#include <gtest/gtest.h>

#include <twinbox/event.hpp>

namespace twinbox {
namespace {

constexpr std::string_view parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(Trace, reads_and_writes_traceparent) {
  const auto context = TraceContext::parse(parent, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id_text(), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(context->span_id_text(), "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled());
  EXPECT_EQ(context->state, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
  EXPECT_EQ(context->traceparent(), parent);
}

TEST(Trace, takes_later_versions_as_far_as_it_knows_them) {
  const std::string later = "cc" + std::string{parent.substr(2)};
  EXPECT_EQ(TraceContext::parse(later)->traceparent(), parent);
  EXPECT_EQ(TraceContext::parse(later + "-what-the-future-brings")->traceparent(), parent);
  EXPECT_FALSE(TraceContext::parse(later + "x"));
  EXPECT_EQ(TraceContext::parse(std::string{parent.substr(0, 53)} + "ff")->flags, 3);
}

TEST(Trace, refuses_what_is_malformed) {
  const std::string good{parent};
  EXPECT_FALSE(TraceContext::parse(""));
  EXPECT_FALSE(TraceContext::parse(good + "-x"));
  EXPECT_FALSE(TraceContext::parse(good + " "));
  EXPECT_FALSE(TraceContext::parse(good.substr(0, 54)));
  EXPECT_FALSE(TraceContext::parse("ff" + good.substr(2)));
  EXPECT_FALSE(TraceContext::parse("0x" + good.substr(2)));
  EXPECT_FALSE(TraceContext::parse("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"));
  EXPECT_FALSE(TraceContext::parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
  EXPECT_FALSE(TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
  EXPECT_FALSE(TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g"));
  EXPECT_FALSE(TraceContext::parse("00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
}

TEST(Trace, leaves_a_malformed_tracestate_out) {
  const auto state = [](std::string_view text) { return TraceContext::parse(parent, text)->state; };
  for (const char* good : {"a=1", "a=1, b=2", "a=1,,b=2", "1ab@sys=x", "a*/-_=!~ x"}) {
    EXPECT_EQ(state(good), good);
  }
  for (const char* bad : {"A=1", "a", "a=", "=1", "a=1=2", "1a=1", "a=1,a=2", "a@b@c=1", "a@=1",
                          "a=\x7f", " ", "a b=1"}) {
    EXPECT_EQ(state(bad), "") << bad;
  }
  std::string many;
  for (int i = 0; i < 32; ++i) many += (i == 0 ? "k" : ",k") + std::to_string(i) + "=v";
  EXPECT_EQ(state(many), many);
  EXPECT_EQ(state(many + ",k32=v"), "");
  EXPECT_EQ(state("a=" + std::string(257, 'v')), "");
}

TEST(Trace, a_child_has_the_same_trace_and_a_new_span_from_the_given_chance) {
  std::uint64_t next = 0;
  Environment environment;
  environment.random = [&] { return next++; };
  const auto context = *TraceContext::parse(parent, "a=1");
  const TraceContext never_zero = context.child(environment);
  EXPECT_EQ(never_zero.span_id_text(), "0000000000000001");
  const TraceContext child = context.child(environment);
  EXPECT_EQ(child.trace_id, context.trace_id);
  EXPECT_EQ(child.flags, context.flags);
  EXPECT_EQ(child.state, "a=1");
  EXPECT_EQ(child.span_id_text(), "0100000000000000");
  EXPECT_TRUE(TraceContext::parse(TraceContext::start(environment).traceparent()));
}

TEST(Trace, a_scope_is_what_the_thread_is_doing) {
  EXPECT_FALSE(current_trace());
  const auto outer = *TraceContext::parse(parent);
  {
    const TraceScope scope{outer};
    {
      const TraceScope inner{outer.child({})};
      EXPECT_NE(current_trace(), outer);
    }
    EXPECT_EQ(current_trace(), outer);
  }
  EXPECT_FALSE(current_trace());
}

}  // namespace
}  // namespace twinbox
