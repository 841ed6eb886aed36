#include "twinbox/environment.hpp"

#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "twinbox/error.hpp"
#include "twinbox/session.hpp"

namespace twinbox {
namespace {

TEST(Environment, has_no_clock_of_its_own) {
  EXPECT_EQ(Environment{}.now(), std::nullopt);
  const Instant noon{std::chrono::hours{12}};
  EXPECT_EQ((Environment{.clock = [=] { return noon; }}.now()), noon);
}

TEST(Environment, takes_random_bits_from_the_system_unless_told_otherwise) {
  const Environment environment;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(environment.random_bits());
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ((Environment{.random = [] { return std::uint64_t{7}; }}.random_bits()), 7u);
}

TEST(Environment, does_not_share_random_bits_with_a_forked_child) {
  const Environment environment;
  (void)environment.random_bits();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  const std::uint64_t own = environment.random_bits();
  if (child == 0) {
    const bool written = write(ends[1], &own, sizeof own) == sizeof own;
    _exit(written ? 0 : 1);
  }
  std::uint64_t childs = 0;
  ASSERT_EQ(read(ends[0], &childs, sizeof childs), static_cast<ssize_t>(sizeof childs));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  close(ends[0]);
  close(ends[1]);
  EXPECT_NE(own, childs);
}

TEST(Environment, lets_no_error_of_the_log_through) {
  int calls = 0;
  const Environment environment{.log = [&](const LogEvent&) {
    ++calls;
    throw 42;
  }};
  EXPECT_NO_THROW(environment.write(LogLevel::error, "claim", {}));
  EXPECT_EQ(calls, 1);
}

TEST(Environment, writes_events_from_its_level_on) {
  std::vector<std::string> events;
  const Environment environment{
      .log =
          [&](const LogEvent& event) {
            events.push_back(std::string{event.name} + "/" + std::to_string(event.fields.size()));
          },
      .log_level = LogLevel::warning};
  environment.write(LogLevel::info, "claim", {{"count", std::int64_t{1}}});
  environment.write(LogLevel::warning, "retry",
                    {{"store", std::string_view{"main"}}, {"attempt", std::int64_t{1}}});
  environment.write(LogLevel::error, "prune", {});
  EXPECT_EQ(events, (std::vector<std::string>{"retry/2", "prune/0"}));
}

TEST(Environment, says_which_levels_it_logs) {
  const auto levels_of = [](const Environment& environment) {
    std::string levels;
    for (const LogLevel level :
         {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error}) {
      if (environment.logs(level)) levels += std::string{to_string(level)} + " ";
    }
    return levels;
  };
  const auto silence = [](const LogEvent&) {};
  EXPECT_EQ(levels_of({}), "warning error ");
  EXPECT_EQ(levels_of({.log_level = LogLevel::error}), "error ");
  EXPECT_EQ(levels_of({.log = silence}), "info warning error ");
  EXPECT_EQ(levels_of({.log = silence, .log_level = LogLevel::debug}), "debug info warning error ");
}

TEST(DatabaseError, knows_what_to_do) {
  using Kind = DatabaseError::Kind;
  for (const Kind kind : {Kind::connection_lost, Kind::contention, Kind::read_only}) {
    EXPECT_TRUE(DatabaseError(kind, "").retryable());
  }
  for (const Kind kind :
       {Kind::commit_in_doubt, Kind::out_of_space, Kind::corrupt, Kind::permission,
        Kind::missing_schema, Kind::cancelled, Kind::invalid_request, Kind::other}) {
    EXPECT_FALSE(DatabaseError(kind, "").retryable());
  }
  EXPECT_EQ(to_string(Kind::commit_in_doubt), "commit_in_doubt");
  EXPECT_EQ(to_string(Kind::missing_schema), "missing_schema");
}

TEST(Dialect, has_a_name) {
  EXPECT_EQ(to_string(Dialect::sqlite), "sqlite");
  EXPECT_EQ(to_string(Dialect::postgres), "postgres");
}

}  // namespace
}  // namespace twinbox
