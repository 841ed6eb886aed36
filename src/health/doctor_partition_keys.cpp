#include "health/doctor_partition_keys.hpp"

#include <array>
#include <cstdio>

#include "health/stalled_text.hpp"
#include "queue/box.hpp"
#include "twinbox/health.hpp"

namespace twinbox {
namespace {

using Level = Finding::Level;

constexpr std::int64_t most_keys = 10;  // are named, of either kind

std::string message_count(std::int64_t waiting) {
  return std::to_string(waiting) + (waiting == HeldKey::max_counted ? " or more" : "") +
         (waiting == 1 ? " message waits" : " messages wait");
}

std::string due_text(Instant due) {
  using namespace std::chrono;
  if (due >= sys_days{year{10000} / January / 1}) return "never";
  const auto day = floor<days>(due);
  const year_month_day date{day};
  const hh_mm_ss time{floor<seconds>(due - day)};
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02u %02d:%02d:%02d UTC",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()));
  return text.data();
}

void examine_held_keys(Session& session, const StatementSet& set, std::vector<Finding>& findings) {
  constexpr std::int64_t most_read = 100;  // with those that were requeued
  std::int64_t room = most_keys;
  const std::vector<Arg> args{
      {"first", 0}, {"last", INT64_MAX}, {"limit", most_read}, {"most", HeldKey::max_counted}};
  session.execute(set["held_keys"], args, [&](const Row& row) {
    const bool requeued = row.boolean(3);
    if (requeued || room-- <= 0) return;
    const std::string id{row.text(5)};
    findings.push_back({"order", Level::warning,
                        "dead letter " + id + " blocks partition key " + std::string{row.text(2)} +
                            ", " + message_count(row.integer(6)),
                        "twinbox requeue " + id + ", or twinbox discard " + id + " --reason …"});
  });
}

void examine_due_times(Session& session, const StatementSet& set, const std::optional<Instant>& now,
                       std::vector<Finding>& findings) {
  const std::vector<Arg> args{{"limit", most_keys},
                              {"far", micros(BlockedKey::far)},
                              {"most", HeldKey::max_counted},
                              {"now", now}};
  session.execute(set["blocked_keys"], args, [&](const Row& row) {
    const std::string id{row.text(5)};
    findings.push_back(
        {"order", Level::warning,
         "partition key " + std::string{row.text(2)} + " waits for " + id + ", which is due " +
             due_text(row.instant(3)) + ": " + message_count(row.integer(6)) + " behind it",
         "twinbox postpone " + id + " --delay 0s, or twinbox discard " + id + " --reason …"});
  });
}

/// By the thresholds that health has by default.
void examine_progress(Session& session, const StatementSet& set, const std::optional<Instant>& now,
                      std::vector<Finding>& findings) {
  const Duration stalled = HealthThresholds{}.stalled;
  const std::vector<Arg> args{{"pending", 0}, {"dead", 0}, {"held", 0},
                              {"probe", 0},   {"far", 0},  {"stalled", micros(stalled)},
                              {"now", now}};
  session.execute(set["health"], args, [&](const Row& row) {
    if (row.integer(5) == 0) return;
    findings.push_back(
        {"progress", Level::warning, stalled_text(stalled),
         "twinbox workers; if one runs, its handlers hang: twinbox list --state leased"});
  });
}

}  // namespace

void examine_order(Session& session, const BoxName& box, const std::optional<Instant>& now,
                   std::vector<Finding>& findings) {
  const auto set = shared_statements(session.dialect(), box);
  examine_held_keys(session, *set, findings);
  examine_due_times(session, *set, now, findings);
  examine_progress(session, *set, now, findings);
}

}  // namespace twinbox
