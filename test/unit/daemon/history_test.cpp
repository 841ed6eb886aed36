#include "daemon/stats/history.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

constexpr std::int64_t noon = 1'800'000'000 / 86400 * 86400 + 43200;

Sample sample(std::uint64_t done, std::int64_t open = 0) {
  return {.total = {.done = done}, .open = open, .dead = 1, .oldest_seconds = 2.5};
}

std::size_t known(const History::Chart& chart) {
  return static_cast<std::size_t>(
      std::ranges::count_if(chart.points, [](const auto& point) { return point.has_value(); }));
}

History::Chart quarter(const History& history, std::int64_t now, const std::string& store = "") {
  return history.chart(now, BoxKind::outbox, store, ChartSpan::quarter_hour);
}

TEST(History, a_step_holds_what_was_done_in_it_per_minute) {
  History history;
  history.add(noon, BoxKind::outbox, "", sample(100));
  history.add(noon + 10, BoxKind::outbox, "", sample(110, 7));
  const History::Chart chart = quarter(history, noon + 10);
  ASSERT_EQ(chart.points.size(), 90u);
  EXPECT_EQ(chart.at.back(), noon + 10);
  const auto& point = chart.points[88];
  ASSERT_TRUE(point.has_value());
  EXPECT_FLOAT_EQ(point->done_per_minute, 60);
  EXPECT_FLOAT_EQ(point->open, 7);
  EXPECT_FLOAT_EQ(point->oldest_seconds, 2.5);
  EXPECT_TRUE(std::isnan(point->p99_ms));
}

TEST(History, longer_steps_hold_the_same_in_fewer_points) {
  History history;
  for (int i = 0; i <= 600; ++i) {
    history.add(noon + 10 * i, BoxKind::outbox, "", sample(static_cast<std::uint64_t>(i) * 5, i));
  }
  const std::int64_t now = noon + 6000;
  for (const auto& [span, count] :
       {std::pair{ChartSpan::quarter_hour, 90u}, std::pair{ChartSpan::hour, 60u},
        std::pair{ChartSpan::day, 11u}}) {
    const History::Chart chart = history.chart(now, BoxKind::outbox, "", span);
    EXPECT_EQ(known(chart), count);
    EXPECT_FLOAT_EQ(chart.points[chart.points.size() - 2]->done_per_minute, 30);
  }
  EXPECT_EQ(known(history.chart(now, BoxKind::inbox, "", ChartSpan::day)), 0u);
}

TEST(History, a_time_without_the_daemon_is_a_gap) {
  History history;
  history.add(noon, BoxKind::outbox, "", sample(0));
  history.add(noon + 10, BoxKind::outbox, "", sample(1));
  History after;
  ASSERT_TRUE(after.decode(history.encode()));
  after.add(noon + 100, BoxKind::outbox, "", sample(0));
  after.add(noon + 110, BoxKind::outbox, "", sample(10));
  const History::Chart chart = quarter(after, noon + 110);
  EXPECT_TRUE(chart.points[78].has_value());
  EXPECT_FALSE(chart.points[83].has_value());
  EXPECT_FLOAT_EQ(chart.points[88]->done_per_minute, 60);
}

TEST(History, a_step_that_a_restart_cuts_in_two_keeps_what_was_known) {
  History history;
  history.add(noon, BoxKind::outbox, "", sample(0, 7));
  History after;
  ASSERT_TRUE(after.decode(history.encode()));
  after.add(noon + 1, BoxKind::outbox, "", {});
  EXPECT_FLOAT_EQ(quarter(after, noon + 1).points[89]->open, 7);
  after.add(noon + 5, BoxKind::outbox, "", sample(1, 8));
  EXPECT_FLOAT_EQ(quarter(after, noon + 5).points[89]->open, 8);
}

TEST(History, a_clock_that_is_set_back_changes_nothing) {
  History history;
  history.add(noon, BoxKind::outbox, "", sample(0));
  history.add(noon + 10, BoxKind::outbox, "", sample(10));
  history.add(noon - 3600, BoxKind::outbox, "", sample(20));
  history.add(noon + 20, BoxKind::outbox, "", sample(20));
  EXPECT_FLOAT_EQ(quarter(history, noon + 20).points[87]->done_per_minute, 60);
  EXPECT_FLOAT_EQ(quarter(history, noon + 20).points[88]->done_per_minute, 60);
}

TEST(History, it_is_bounded_in_time_and_in_stores) {
  History history;
  for (std::size_t i = 0; i < History::max_stores + 50; ++i) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      history.add(noon, kind, "", sample(1));
      history.add(noon, kind, "store" + std::to_string(i), sample(1));
    }
  }
  for (std::int64_t i = 1; i <= 3000; ++i)
    history.add(noon + 10 * i, BoxKind::outbox, "", sample(1));
  const std::size_t size = history.encode().size();
  for (std::int64_t i = 3001; i <= 20000; ++i) {
    history.add(noon + 10 * i, BoxKind::outbox, "", sample(1));
    if (i % 6 == 0) history.drop_old(noon + 10 * i);
  }
  EXPECT_LE(history.encode().size(), size);
  EXPECT_LT(history.encode().size(), 20'000u);  // the stores have been quiet for two days
}

TEST(History, damaged_bytes_are_noticed_and_change_nothing) {
  History history;
  history.add(noon, BoxKind::outbox, "main", sample(0));
  history.add(noon + 10, BoxKind::outbox, "main", sample(10));
  const std::string bytes = history.encode();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string broken = bytes;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    EXPECT_FALSE(history.decode(broken)) << i;
    EXPECT_FALSE(history.decode(bytes.substr(0, i))) << i;
  }
  EXPECT_FALSE(history.decode(bytes + "x"));
  EXPECT_EQ(history.encode(), bytes);
  EXPECT_TRUE(history.decode(bytes));
}

TEST(HistoryFile, is_replaced_in_one_step_and_put_aside_when_it_cannot_be_read) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("twinbox_history_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::filesystem::path file = folder / "twinbox.history";
  History history;
  history.add(noon, BoxKind::outbox, "", sample(3));
  save_history(history, file);
  History again;
  load_history(again, file, {});
  EXPECT_EQ(again.encode(), history.encode());
  std::ofstream{file, std::ios::app} << "x";
  History third;
  load_history(third, file, {});
  EXPECT_EQ(third.encode(), History{}.encode());
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(std::filesystem::exists(folder / "twinbox.history.damaged"));
  EXPECT_THROW(save_history(history, folder / "none" / "twinbox.history"), std::runtime_error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace twinbox::app
