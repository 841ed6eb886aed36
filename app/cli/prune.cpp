// The commands prune and reap, which run housekeeping once.
#include <algorithm>
#include <set>

#include "cli/change_report.hpp"
#include "cli/open_store.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

constexpr std::int64_t batch = 1000;

struct PruneArguments {
  std::optional<std::string> older_than;
  bool include_dead = false;
  bool include_seen = false;

  [[nodiscard]] PruneOptions of(const OpenBox& box) const {
    // An open box always has a retention period.
    const Duration age = older_than ? parse_duration("--older-than", *older_than)
                                    : box.queue.options().retention.value_or(Duration::zero());
    return {.older_than = age,
            .batch = batch,
            .limit = batch,
            .include_dead = include_dead,
            .include_seen = include_seen};
  }
};

/// Counts the messages that prune would delete, page by page, without changing them.
std::int64_t count_prunable(const OpenBox& box, const PruneOptions& options, Instant now) {
  const Instant bound = now - options.older_than;
  const auto finished = [&](const DeliveryEntry& entry) {
    switch (entry.delivery.state) {
      case DeliveryState::done:
      case DeliveryState::discarded:
      case DeliveryState::marked: return entry.delivery.finished_at <= bound;
      case DeliveryState::dead: return options.include_dead && entry.delivery.finished_at <= bound;
      case DeliveryState::seen: return options.include_seen && entry.message.last_seen_at <= bound;
      default: return false;
    }
  };
  Admin admin(box.queue);
  std::set<std::int64_t> holding;  // partition keys held by dead letters of any age
  if (options.include_dead) {
    for (const HeldKey& held : admin.held_keys(100'000)) holding.insert(held.delivery.number);
  }
  const Filter filter{.created_before = bound + Duration{1}};
  std::int64_t count = 0;
  std::optional<DeliveryKey> after;
  do {
    const Page page = admin.list(filter, batch, after);
    for (auto begin = page.entries.begin(); begin != page.entries.end();) {
      const auto end = std::find_if(begin, page.entries.end(), [&](const DeliveryEntry& entry) {
        return entry.message.number != begin->message.number;
      });
      if (std::all_of(begin, end, finished) && !holding.contains(begin->message.number)) ++count;
      begin = end;
    }
    after = page.next;
  } while (after);
  return count;
}

int prune(const CommonOptions& common, const PruneArguments& arguments, const Screen& screen) {
  OpenStore store(common);
  const std::vector<OpenBox> boxes = store.boxes();
  ChangeCounts planned;
  const Instant now = store.now();
  for (const OpenBox& box : boxes)
    planned.add(box.name(), count_prunable(box, arguments.of(box), now));
  if (common.dry_run || planned.total() == 0) {
    report(screen, common, planned, common.dry_run ? "would be pruned" : "pruned", "message",
           "messages");
    return exit_ok;
  }
  if (!common.yes && !screen.confirm("prune " + planned.text("message", "messages") + "?")) {
    screen.note("nothing was changed\n");
    return exit_negative;
  }
  const InterruptGuard guard;
  ChangeCounts done;
  {
    Progress progress(screen, "prune", planned.total());
    for (const OpenBox& box : boxes) {
      std::size_t deleted = 0;
      do {
        deleted = box.queue.prune(arguments.of(box));
        done.add(box.name(), static_cast<std::int64_t>(deleted));
        progress.at(done.total());
      } while (deleted > 0 && !InterruptGuard::interrupted());
    }
  }
  report(screen, common, done, "pruned", "message", "messages");
  return InterruptGuard::interrupted() ? exit_interrupted : exit_ok;
}

int reap(const CommonOptions& common, const Screen& screen) {
  OpenStore store(common);
  ChangeCounts done;
  for (const OpenBox& box : store.boxes()) {
    std::size_t count = 0;
    do {
      count = box.queue.reap(batch);
      done.add(box.name(), static_cast<std::int64_t>(count));
    } while (count > 0);
  }
  report(screen, common, done, "reaped", "lease", "leases");
  return exit_ok;
}

}  // namespace

Verb prune_verb(CommonOptions& common) {
  auto arguments = std::make_shared<PruneArguments>();
  return {
      .name = "prune",
      .group = "Operate",
      .summary = "Delete finished messages older than the retention period",
      .text =
          "Open messages are never deleted. The command shows the number and asks for "
          "confirmation.",
      .options = with({{"--older-than", "DURATION",
                        "Finished longer ago than this (default: the retention period of the box, "
                        "7d for an outbox, 30d for an inbox)",
                        &arguments->older_than},
                       {"--include-dead", "", "Also delete dead letters", &arguments->include_dead},
                       {"--include-seen", "", "Also delete messages that were only marked as seen",
                        &arguments->include_seen}},
                      {bulk_options(common), box_options(common), store_options(common),
                       answer_options(common)}),
      .examples = {{"twinbox prune --older-than 7d --dry-run", "count only"},
                   {"twinbox prune --yes", "for a nightly job"}},
      .run = [&common, arguments](const Screen& screen) {
        return prune(common, *arguments, screen);
      }};
}

Verb reap_verb(CommonOptions& common) {
  return {.name = "reap",
          .group = "Operate",
          .summary = "Clear expired leases",
          .text =
              "Reaping only keeps the displayed state accurate: claims take over expired leases by "
              "themselves.",
          .options = with({}, {box_options(common), store_options(common), answer_options(common)}),
          .examples = {{"twinbox reap", "after a worker crashed"}},
          .run = [&common](const Screen& screen) { return reap(common, screen); }};
}

}  // namespace twinbox::cli
