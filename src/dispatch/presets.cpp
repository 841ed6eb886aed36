#include "twinbox/channel.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Duration a_week = 7 * 24h;

/// Options that still have their default get the preset's value.
template <class Options, class Value>
void preset(Options& options, Value Options::*option, const Value& value) {
  if (options.*option == Options{}.*option) options.*option = value;
}

/// A policy is replaced as a whole: parts of two policies may contradict each other.
void preset_retry(BoxOptions& options, const RetryPolicy& wanted) {
  const RetryPolicy& set = options.retry;
  const RetryPolicy standard = RetryPolicy::standard();
  if (set.first_delay == standard.first_delay && set.max_delay == standard.max_delay &&
      set.jitter == standard.jitter && set.max_attempts == standard.max_attempts && !set.custom)
    options.retry = wanted;
}

/// The box decides the retention, so that one option sets it.
void preset_housekeeping(DispatcherOptions& options, const HousekeepingOptions& wanted) {
  if (!options.housekeeping) return;
  preset(*options.housekeeping, &HousekeepingOptions::reap, wanted.reap);
  preset(*options.housekeeping, &HousekeepingOptions::expire, wanted.expire);
  preset(*options.housekeeping, &HousekeepingOptions::prune, wanted.prune);
}

}  // namespace

BoxOptions per_handler_box(BoxOptions options) {
  preset_retry(options, RetryPolicy::per_handler());
  preset(options, &BoxOptions::retention, {Duration::max()});
  return options;
}

DispatcherOptions per_handler_dispatcher(DispatcherOptions options) {
  preset(options, &DispatcherOptions::batch, std::int64_t{100});
  preset(options, &DispatcherOptions::poll_interval, Duration{30s});
  preset(options, &DispatcherOptions::lease, Duration{5min});
  preset(options, &DispatcherOptions::restart_delay, Duration{5s});
  HousekeepingOptions wanted = HousekeepingOptions::per_handler();
  wanted.prune.enabled = true;  // by the box's retention: forever, unless it was set
  preset_housekeeping(options, wanted);
  return options;
}

BoxOptions at_most_once_box(BoxOptions options) {
  preset(options, &BoxOptions::retention, {a_week});
  return options;
}

DispatcherOptions at_most_once_dispatcher(DispatcherOptions options) {
  preset_housekeeping(options, HousekeepingOptions::at_most_once());
  return options;
}

BoxOptions event_bus_box(BoxOptions options) {
  preset_retry(options, RetryPolicy::event_bus());
  preset(options, &BoxOptions::retention, {a_week});
  return options;
}

DispatcherOptions event_bus_dispatcher(BoxKind box, DispatcherOptions options) {
  preset(options, &DispatcherOptions::batch, std::int64_t{100});
  preset(options, &DispatcherOptions::poll_interval, Duration{30s});
  preset_housekeeping(options, box == BoxKind::outbox ? HousekeepingOptions::event_bus_outbox()
                                                      : HousekeepingOptions::event_bus_inbox());
  return options;
}

}  // namespace twinbox
