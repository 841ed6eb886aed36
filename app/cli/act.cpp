// requeue and discard: what a person does to many messages at once.
#include <algorithm>
#include <pwd.h>
#include <unistd.h>

#include "cli/filter.hpp"
#include "cli/find.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

constexpr std::int64_t batch = 500;

struct ActOptions {
  std::vector<std::string> ids;
  FilterOptions filter;
  std::optional<std::string> group;
  std::optional<std::string> delay;
  bool all = false;
};

/// The verb, and what it does to the duties it is given.
struct Deed {
  std::string verb;
  std::string done;
  std::function<bool(DutyState)> fits;
  std::function<std::size_t(Admin&, std::span<const DutyKey>)> apply;
};

/// Duties of one box: named ones, or a filter that is followed page by page.
struct Aim {
  OpenBox box;
  std::vector<DutyKey> named = {};
  std::optional<Filter> filter = {};
  std::function<bool(const Entry&)> matches = [](const Entry&) { return true; };
  std::int64_t count = 0;
};

bool in_group(const DeadGroup& group, const Entry& entry) {
  const std::string_view topic =
      entry.message.topic ? entry.message.topic->view() : std::string_view{};
  return topic == group.topic && normalise_error(entry.duty.last_error) == group.error;
}

/// Hands over the duties the aim is about, a batch at a time, until `take` returns false.
void each_batch(const Aim& aim, const Deed& deed,
                const std::function<bool(std::span<const DutyKey>)>& take) {
  if (!aim.filter) {
    const std::span<const DutyKey> named = aim.named;
    for (std::size_t at = 0; at < named.size(); at += batch) {
      if (!take(named.subspan(at, std::min<std::size_t>(batch, named.size() - at)))) return;
    }
    return;
  }
  Admin admin(aim.box.queue);
  std::optional<DutyKey> after;
  do {
    const Page page = admin.list(*aim.filter, batch, after);
    std::vector<DutyKey> keys;
    for (const Entry& entry : page.entries) {
      if (deed.fits(entry.duty.state) && entry.message.has_content && aim.matches(entry))
        keys.push_back(entry.duty.key);
    }
    if (!keys.empty() && !take(keys)) return;
    after = page.next;
  } while (after);
}

std::vector<Aim> aims_by_id(const std::vector<OpenBox>& boxes, const ActOptions& options,
                            const Deed& deed) {
  std::vector<Aim> aims;
  for (const OpenBox& box : boxes) aims.push_back({box});
  for (const std::string& id : options.ids) {
    const auto found = find_message(boxes, id, options.filter.source);
    if (!found) throw Refusal(exit_negative, unknown_message(id));
    const auto aim = std::find_if(aims.begin(), aims.end(), [&](const Aim& one) {
      return one.box.kind == found->first.kind;
    });
    for (const DutyView& duty : found->second.duties) {
      const bool wanted =
          !options.filter.handler || duty.key.handler == parse_handler(*options.filter.handler);
      if (wanted && deed.fits(duty.state)) aim->named.push_back(duty.key);
    }
  }
  return aims;
}

std::vector<Aim> aims_by_group(const std::vector<OpenBox>& boxes, const std::string& name) {
  std::vector<Aim> aims;
  for (const OpenBox& box : boxes) {
    for (const DeadGroup& group : Admin{box.queue}.dead_groups()) {
      if (group_name(group) != name) continue;
      Filter filter{.state = StateFilter::dead};
      if (!group.topic.empty()) filter.topic = Topic{group.topic, Trusted{}};
      filter.handler = group.handler;
      aims.push_back({.box = box, .filter = filter, .matches = [group](const Entry& entry) {
                        return in_group(group, entry);
                      }});
    }
  }
  if (aims.empty()) {
    throw Refusal(exit_negative, "there is no group '" + printable(name) +
                                     "'; twinbox list --groups shows those there are");
  }
  return aims;
}

std::vector<Aim> aims_of(OpenStore& store, const ActOptions& options, const Deed& deed) {
  const std::vector<OpenBox> boxes = store.boxes();
  const bool filtered = options.all || !options.filter.empty() || options.filter.state;
  if (!options.ids.empty() && (options.group || options.all))
    throw Refusal(exit_usage,
                  deed.verb + ": ids and --group or --all are both given; leave one out");
  if (!options.ids.empty()) return aims_by_id(boxes, options, deed);
  if (options.group) return aims_by_group(boxes, *options.group);
  if (!filtered) {
    throw Refusal(exit_usage,
                  deed.verb + ": say what: ids, --group, a filter such as --topic, or --all");
  }
  Filter filter = options.filter.filter(store.now());
  if (filter.state == StateFilter::any) filter.state = StateFilter::dead;
  std::vector<Aim> aims;
  for (const OpenBox& box : boxes) aims.push_back({.box = box, .filter = filter});
  return aims;
}

int act(const Common& common, const ActOptions& options, const Deed& deed, const Screen& screen) {
  OpenStore store(common);
  std::vector<Aim> aims = aims_of(store, options, deed);
  Tally planned;
  for (Aim& aim : aims) {
    each_batch(aim, deed, [&](std::span<const DutyKey> keys) {
      aim.count += static_cast<std::int64_t>(keys.size());
      return true;
    });
    planned.add(aim.box.name(), aim.count);
  }
  if (common.dry_run || planned.total() == 0) {
    report(screen, common, planned, (common.dry_run ? "would be " : "") + deed.done, "duty",
           "duties");
    return planned.total() == 0 && !options.ids.empty() ? exit_negative : exit_ok;
  }
  const std::string question = deed.verb + " " + planned.text("duty", "duties") + "?";
  if (options.ids.empty() && !common.yes && !screen.confirm(question)) {
    screen.note("nothing was changed\n");
    return exit_negative;
  }
  const InterruptGuard guard;
  Tally done;
  {
    Progress progress(screen, deed.verb, planned.total());
    for (const Aim& aim : aims) {
      Admin admin(aim.box.queue);
      each_batch(aim, deed, [&](std::span<const DutyKey> keys) {
        done.add(aim.box.name(), static_cast<std::int64_t>(deed.apply(admin, keys)));
        progress.at(done.total());
        return !InterruptGuard::interrupted();
      });
    }
  }
  report(screen, common, done, deed.done, "duty", "duties");
  if (InterruptGuard::interrupted()) return exit_interrupted;
  return done.total() == 0 && !options.ids.empty() ? exit_negative : exit_ok;
}

std::vector<Option> id_options(ActOptions& options) {
  return {{"id", "ID", "of messages", &options.ids},
          {"--group",
           "NAME",
           "a group that list --groups shows",
           &options.group,
           {},
           false,
           "Which messages"},
          {"--all",
           "",
           "whatever the rest of the filter lets through",
           &options.all,
           {},
           false,
           "Which messages"}};
}

}  // namespace

std::string actor_of(const Common& common) {
  if (!common.actor.empty()) return common.actor;
  const passwd* user = getpwuid(getuid());
  return user != nullptr ? user->pw_name : std::to_string(getuid());
}

Verb requeue_verb(Common& common) {
  auto options = std::make_shared<ActOptions>();
  const auto run = [&common, options](const Screen& screen) {
    const Duration delay =
        options->delay ? parse_duration("--delay", *options->delay) : Duration::zero();
    const Act how{.actor = actor_of(common), .reason = common.reason};
    return act(common, *options,
               {"requeue", "requeued", [](DutyState state) { return state == DutyState::dead; },
                [&](Admin& admin, std::span<const DutyKey> keys) {
                  return admin.requeue(keys, delay, how);
                }},
               screen);
  };
  return {.name = "requeue",
          .group = "Act",
          .summary = "lets dead letters be tried again",
          .text =
              "Attempts start again from zero, the error is cleared. Named by ids it happens at "
              "once; by group or filter, the number is shown and asked for.",
          .options = with(id_options(*options),
                          {options->filter.options({}),
                           {{"--delay", "DURATION", "not before, such as 10m", &options->delay},
                            {"--reason", "TEXT", "why, for the audit", &common.reason}},
                           act_options(common),
                           box_options(common),
                           store_options(common),
                           answer_options(common)}),
          .examples = {{"twinbox requeue evt_1", "one message"},
                       {"twinbox requeue --group 3fa2c1d0", "all that died of the same"},
                       {"twinbox requeue --topic order.placed --since 2h --dry-run",
                        "how many it would be"}},
          .run = run};
}

Verb discard_verb(Common& common) {
  auto options = std::make_shared<ActOptions>();
  const auto run = [&common, options](const Screen& screen) {
    if (common.reason.empty())
      throw Refusal(exit_usage, "discard: say why, with --reason; it is kept with the messages");
    const bool by_filter = options->ids.empty() && !options->group;
    if (by_filter && !options->filter.state)
      throw Refusal(exit_usage, "discard: say whether dead or open messages, with --state");
    const Act how{.actor = actor_of(common), .reason = common.reason};
    return act(
        common, *options,
        {"discard", "discarded",
         [](DutyState state) { return state == DutyState::dead || state < DutyState::done; },
         [&](Admin& admin, std::span<const DutyKey> keys) { return admin.discard(keys, how); }},
        screen);
  };
  return {.name = "discard",
          .group = "Act",
          .summary = "throws open or dead messages away, for good",
          .text =
              "They count as finished from then on, and are pruned like what is done. A worker "
              "that holds one loses it.",
          .options = with(
              id_options(*options),
              {options->filter.options({"dead", "open", "ready", "scheduled", "leased", "waiting"}),
               {{"--reason", "TEXT", "why; is kept with them", &common.reason}},
               act_options(common),
               box_options(common),
               store_options(common),
               answer_options(common)}),
          .examples = {{"twinbox discard evt_1 --reason 'sent twice by mistake'", "one message"},
                       {"twinbox discard --state dead --before 30d --reason old --yes",
                        "without a question, for scripts"}},
          .run = run};
}

}  // namespace twinbox::cli
