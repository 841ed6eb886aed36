// The command health, for probes.
#include <algorithm>

#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include "daemon/config/secrets.hpp"
#include <twinbox/health.hpp>

namespace twinbox::cli {
namespace {

namespace json = boost::json;

Style style_of_health(HealthState state) {
  switch (state) {
    case HealthState::healthy: return Style::good;
    case HealthState::degraded: return Style::warn;
    case HealthState::unhealthy: return Style::bad;
  }
  return Style::plain;
}

std::string joined(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

int code_of(HealthState state) {
  switch (state) {
    case HealthState::healthy: return exit_ok;
    case HealthState::degraded: return exit_negative;
    case HealthState::unhealthy: break;
  }
  return exit_unhealthy;
}

int health(const CommonOptions& common, const HealthThresholds& thresholds, const Screen& screen) {
  HealthState worst = HealthState::healthy;
  json::array boxes;
  const auto tell = [&](const std::string& box, const Health& one) {
    worst = std::max(worst, one.state);
    json::array reasons;
    for (const std::string& reason : one.reasons) reasons.push_back(json::value(reason));
    boxes.push_back({{"box", box},
                     {"state", to_string(one.state)},
                     {"pending", one.pending},
                     {"dead", one.dead},
                     {"reasons", std::move(reasons)}});
    if (common.json) return;
    const Style style = style_of_health(one.state);
    screen.print(fit(box, 8) + screen.look().paint(style, fit(to_string(one.state), 11)) +
                 printable(joined(one.reasons)) + "\n");
  };
  try {
    OpenStore store(common);
    for (const OpenBox& box : store.boxes()) tell(box.name(), check_health(box.queue, thresholds));
  } catch (const DatabaseError& error) {
    tell("store", {HealthState::unhealthy,
                   {app::without_secrets(std::string{"cannot be queried: "} + error.what())}});
  }
  if (common.json) print_json(screen, {{"state", to_string(worst)}, {"boxes", std::move(boxes)}});
  return code_of(worst);
}

}  // namespace

Verb health_verb(CommonOptions& common) {
  auto thresholds = std::make_shared<HealthThresholds>();
  auto stalled = std::make_shared<std::optional<std::string>>();
  return {
      .name = "health",
      .group = "Check",
      .summary = "Report healthy, degraded or unhealthy, also as the exit code",
      .text =
          "Exit code 0: healthy. 1: degraded, more deliveries are due than --pending, or none has "
          "finished for --stalled. 5: unhealthy, more dead letters than --dead, or the store "
          "cannot be queried. The command stops counting at these limits, so you can run it every "
          "few seconds. It writes nothing and therefore does not notice a full disk or a read-only "
          "store; the daemon's /health/ready does.",
      .options = with(
          {{"--pending", "COUNT", "Degraded above this number of due deliveries (default: 1000)",
            &thresholds->pending},
           {"--dead", "COUNT", "Unhealthy above this number of dead letters (default: 10)",
            &thresholds->dead},
           {"--stalled", "TIME",
            "Degraded when a delivery has been due for this long and no dispatcher has finished "
            "one (default: 5m; 0s: never)",
            stalled.get()}},
          {box_options(common), store_options(common), answer_options(common)}),
      .examples = {{"twinbox health || mail -s 'twinbox is unhealthy' ops@example.com",
                    "from cron"}},
      .run = [&common, thresholds, stalled](const Screen& screen) {
        if (*stalled) thresholds->stalled = parse_duration("--stalled", **stalled);
        return health(common, *thresholds, screen);
      }};
}

}  // namespace twinbox::cli
