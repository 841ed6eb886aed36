#include "dispatch/verdict.hpp"

#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "twinbox/testing.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using Action = Verdict::Action;

const Environment silent{.log = [](const LogEvent&) {}};

RetryPolicy five_attempts() {
  RetryPolicy retry;
  retry.first_delay = 2s;
  retry.max_delay = 60s;
  retry.max_attempts = 5;
  return retry;
}

constexpr Instant noon = std::chrono::sys_days{std::chrono::January / 1 / 2026} + 12h;
constexpr Instant last = std::chrono::sys_days{std::chrono::December / 31 / 9999};

struct Row {
  const char* name;
  Outcome outcome;
  int attempts;
  Action action;
  std::string reason = {};
  std::optional<Duration> delay = {};
  Instant until = {};
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

class Decide : public testing::TestWithParam<Row> {};

TEST_P(Decide, settles) {
  const Row& row = GetParam();
  const Verdict verdict = decide(row.outcome, row.attempts, five_attempts(), silent);
  EXPECT_EQ(verdict.action, row.action);
  EXPECT_EQ(verdict.reason, row.reason);
  EXPECT_EQ(verdict.delay, row.delay);
  EXPECT_EQ(verdict.until, row.until);
  EXPECT_EQ(verdict.error, row.outcome.reason());
  EXPECT_TRUE(verdict.handler_failed);
  EXPECT_FALSE(verdict.marked);
}

INSTANTIATE_TEST_SUITE_P(
    Outcomes, Decide,
    testing::Values(Row{"done", Outcome::done(), 3, Action::ack},
                    Row{"first_failure", Outcome::retry("e"), 0, Action::abandon, "", 2s},
                    Row{"second_failure", Outcome::retry("e"), 1, Action::abandon, "", 4s},
                    Row{"fourth_failure", Outcome::retry("e"), 3, Action::abandon, "", 16s},
                    Row{"last_failure", Outcome::retry("e"), 4, Action::fail, "max_attempts"},
                    Row{"beyond_the_last", Outcome::retry("e"), 7, Action::fail, "max_attempts"},
                    Row{"largest_count", Outcome::retry("e"), std::numeric_limits<int>::max(),
                        Action::fail, "max_attempts"},
                    Row{"own_delay", Outcome::retry("e", 7min), 0, Action::abandon, "", 7min},
                    Row{"own_delay_does_not_save_the_last", Outcome::retry("e", 7min), 4,
                        Action::fail, "max_attempts"},
                    Row{"delay_of_nothing", Outcome::retry("e", 0us), 0, Action::abandon, "", 1us},
                    Row{"negative_delay", Outcome::retry("e", -5s), 0, Action::abandon, "", 1us},
                    Row{"endless_delay", Outcome::retry("e", Duration::max()), 0, Action::abandon,
                        "", std::chrono::days{365}},
                    Row{"dead", Outcome::dead("e"), 0, Action::fail, "handler"},
                    Row{"malformed", Outcome::malformed("e"), 0, Action::fail, "malformed"},
                    Row{"conflict", Outcome::conflict("e"), 0, Action::fail, "conflict"},
                    Row{"postponed", Outcome::postpone(noon), 4, Action::postpone, "", {}, noon},
                    Row{"postponed_for_ever",
                        Outcome::postpone(Instant::max()),
                        4,
                        Action::postpone,
                        "",
                        {},
                        last},
                    Row{"postponed_to_before_all_time",
                        Outcome::postpone(Instant::min()),
                        4,
                        Action::postpone,
                        "",
                        {},
                        Instant{}}),
    [](const auto& row) { return row.param.name; });

TEST(Decide, keeps_the_cause_for_the_log) {
  const Outcome outcome = Outcome::retry("503", {}, LogCause{"http", 503});
  const Verdict verdict = decide(outcome, 0, five_attempts(), silent);
  ASSERT_TRUE(verdict.cause);
  EXPECT_EQ(verdict.cause->str(), "http 503");
}

TEST(Decide, doubles_the_delay_and_logs_when_a_retry_function_throws) {
  std::vector<std::string> events;
  const Environment environment{
      .log = [&](const LogEvent& event) { events.emplace_back(event.name); }};
  RetryPolicy retry = five_attempts();
  retry.custom = [](int) -> std::chrono::milliseconds { throw std::runtime_error("no idea"); };
  const Verdict verdict = decide(Outcome::retry("e"), 1, retry, environment);
  EXPECT_EQ(verdict.action, Action::abandon);
  EXPECT_EQ(verdict.delay, 4s);
  EXPECT_EQ(events, std::vector<std::string>{"retry_error"});
}

struct UnhandledRow {
  const char* name;
  NoHandler no_handler;
  UnknownKey unknown_key;
  bool has_key;
  int attempts;
  Action action;
  std::string reason;
};

std::ostream& operator<<(std::ostream& out, const UnhandledRow& row) { return out << row.name; }

class DecideUnhandled : public testing::TestWithParam<UnhandledRow> {};

TEST_P(DecideUnhandled, settles) {
  const UnhandledRow& row = GetParam();
  Message message = make_message({.topic = Topic{"order.placed"}, .payload = "{}"});
  message.attempts = row.attempts;
  if (row.has_key) message.handler = HandlerKey{"mail"};
  DispatcherOptions options;
  options.no_handler = row.no_handler;
  options.unknown_key = row.unknown_key;
  const Verdict verdict = decide_unhandled(message, options, five_attempts(), silent);
  EXPECT_EQ(verdict.action, row.action);
  EXPECT_EQ(verdict.reason, row.reason);
  if (row.action == Action::fail && row.reason != "max_attempts") {
    EXPECT_FALSE(verdict.handler_failed) << "no handler ran, so no attempt is counted";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, DecideUnhandled,
    testing::Values(UnhandledRow{"topic_retry", NoHandler::retry, UnknownKey::dead, false, 0,
                                 Action::abandon, ""},
                    UnhandledRow{"topic_retry_exhausted", NoHandler::retry, UnknownKey::dead, false,
                                 4, Action::fail, "max_attempts"},
                    UnhandledRow{"topic_dead", NoHandler::dead, UnknownKey::retry, false, 0,
                                 Action::fail, "no_handler"},
                    UnhandledRow{"topic_discard", NoHandler::discard, UnknownKey::dead, false, 0,
                                 Action::discard, "no handler for topic 'order.placed'"},
                    UnhandledRow{"topic_complete", NoHandler::complete, UnknownKey::dead, false, 0,
                                 Action::ack, ""},
                    UnhandledRow{"key_dead", NoHandler::retry, UnknownKey::dead, true, 0,
                                 Action::fail, "unknown_key"},
                    UnhandledRow{"key_retry", NoHandler::dead, UnknownKey::retry, true, 0,
                                 Action::abandon, ""}),
    [](const auto& row) { return row.param.name; });

TEST(PostponeVerdict, counts_from_the_claim) {
  Message message = make_message({.topic = Topic{"order.placed"}, .payload = "{}"});
  message.lease_until = noon + 30s;
  const Verdict verdict = postpone_verdict(message, 30s, 15s);
  EXPECT_EQ(verdict.action, Action::postpone);
  EXPECT_EQ(verdict.until, noon + 15s);
}

}  // namespace
}  // namespace twinbox
