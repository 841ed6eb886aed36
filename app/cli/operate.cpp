// requeue, postpone and discard: what a person does to many messages at once.
#include <algorithm>
#include <iterator>
#include <pwd.h>
#include <unistd.h>

#include "cli/change_report.hpp"
#include "cli/filter.hpp"
#include "cli/find_message.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

struct OperationOptions {
  std::vector<std::string> ids;
  FilterOptions filter;
  std::optional<std::string> group;
  std::optional<std::string> delay;
  std::optional<std::string> until;
  bool all = false;
};

/// What an operation is about: named deliveries, a filter, or a group of dead letters.
using Selection = std::variant<std::vector<DeliveryKey>, Filter, DeadGroup>;

/// The verb, and what it does.
struct OperationKind {
  std::string verb;
  std::string done;
  std::function<std::size_t(Admin&, const Selection&, const Operation&)> apply;
};

struct Target {
  OpenBox box;
  Selection selection;
};

/// Every delivery of the messages, whatever its state: the same command again is the same
/// operation.
std::vector<Target> targets_by_id(const std::vector<OpenBox>& boxes,
                                  const OperationOptions& options) {
  std::vector<std::vector<DeliveryKey>> named(boxes.size());
  for (const std::string& id : options.ids) {
    const auto found = find_message(boxes, id, options.filter.source);
    if (!found) throw CliError(exit_negative, unknown_message(id));
    const auto box = std::find_if(boxes.begin(), boxes.end(), [&](const OpenBox& one) {
      return one.kind == found->first.kind;
    });
    for (const DeliveryView& delivery : found->second.deliveries) {
      if (!options.filter.handler || delivery.key.handler == parse_handler(*options.filter.handler))
        named[static_cast<std::size_t>(box - boxes.begin())].push_back(delivery.key);
    }
  }
  std::vector<Target> targets;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!named[i].empty()) targets.push_back({boxes[i], std::move(named[i])});
  }
  return targets;
}

std::vector<Target> targets_by_group(const std::vector<OpenBox>& boxes, const std::string& name) {
  constexpr std::int64_t max_groups = 10'000;  // are looked through for the name
  std::vector<Target> targets;
  for (const OpenBox& box : boxes) {
    for (const DeadGroup& group : Admin{box.queue}.dead_groups(max_groups).groups) {
      if (group_name(group) == name) targets.push_back({box, group});
    }
  }
  if (targets.empty()) {
    throw CliError(exit_negative, "there is no group '" + printable(name) +
                                      "'; twinbox list --groups shows those there are");
  }
  return targets;
}

/// One way to say what it is about, before the store is asked: a filter that nobody looks at would
/// let through what it was meant to hold back.
void require_one_selection(const OperationOptions& options, const OperationKind& kind) {
  const auto refuse = [&](const std::string& why) {
    throw CliError(exit_usage, kind.verb + ": " + why);
  };
  if (!options.ids.empty() && (options.group || options.all))
    refuse("ids and --group or --all are both given; leave one out");
  FilterOptions rest = options.filter;
  if (!options.ids.empty()) {  // these tell which of an id
    rest.source.reset();
    rest.handler.reset();
  }
  if (options.group && rest.state == "dead") rest.state.reset();  // what a group is of
  const bool filtered = !rest.empty() || rest.state;
  if (!options.ids.empty() && filtered)
    refuse("ids take no filter but --source and --handler; leave the rest out");
  if (options.group && (filtered || options.all))
    refuse("--group takes no filter and no --all; leave one out");
  if (options.ids.empty() && !options.group && !options.all && !filtered)
    refuse("say what: ids, --group, a filter such as --topic, or --all");
}

std::vector<Target> targets_of(OpenStore& store, const OperationOptions& options) {
  const std::vector<OpenBox> boxes = store.boxes();
  if (!options.ids.empty()) return targets_by_id(boxes, options);
  if (options.group) return targets_by_group(boxes, *options.group);
  const Filter filter = options.filter.filter(store.now());
  std::vector<Target> targets;
  for (const OpenBox& box : boxes) targets.push_back({box, filter});
  return targets;
}

ChangeCounts count(const std::vector<Target>& targets, const OperationKind& kind,
                   Operation operation) {
  operation.dry_run = true;
  ChangeCounts planned;
  for (const Target& target : targets) {
    Admin admin(target.box.queue);
    planned.add(target.box.name(),
                static_cast<std::int64_t>(kind.apply(admin, target.selection, operation)));
  }
  return planned;
}

/// Whether somebody agrees to the number, which may grow while he thinks: then he is asked again.
bool confirmed(const std::vector<Target>& targets, const OperationKind& kind,
               const Operation& operation, ChangeCounts& planned, const Screen& screen) {
  std::string more;
  for (std::int64_t seen = 0; planned.total() > seen;
       more = " It was " + std::to_string(seen) + "; --yes takes whatever comes.") {
    seen = planned.total();
    if (!screen.confirm(kind.verb + " " + planned.text("delivery", "deliveries") + "?" + more))
      return false;
    planned = count(targets, kind, operation);
  }
  return true;
}

/// The same command again, as a shell takes it. A time that counts from now has become an instant.
std::string resume_command(const CommonOptions& common, const Operation& operation,
                           const std::vector<Target>& targets) {
  const Filter* filter =
      targets.empty() ? nullptr : std::get_if<Filter>(&targets.front().selection);
  std::string text = "twinbox";
  bool named = false;
  for (std::size_t i = 0; i < common.words.size(); ++i) {
    std::string word = common.words[i];
    const std::string option = word.substr(0, word.find('='));
    const auto& instant = filter == nullptr      ? std::optional<Instant>{}
                          : option == "--since"  ? filter->created_since
                          : option == "--before" ? filter->created_before
                                                 : std::optional<Instant>{};
    if (instant) {
      if (option == word) ++i;
      word = option + "=" + rfc3339(*instant);
    }
    named = named || option == "--operation";
    text += " " + shell_word(word);
  }
  if (!named) text += " --operation " + shell_word(operation.operation_id);
  return text + (common.yes ? "" : " --yes");
}

/// True unless every box has finished it.
bool is_unfinished(const std::vector<Target>& targets, const std::string& operation) {
  return std::any_of(targets.begin(), targets.end(), [&](const Target& target) {
    const auto entry = Admin{target.box.queue}.operation(operation);
    return !entry || !entry->finished;
  });
}

/// Does it box by box, until it is done or interrupted.
ChangeCounts run_box_by_box(const std::vector<Target>& targets, const OperationKind& kind,
                            Operation operation, std::int64_t planned, const Screen& screen) {
  ChangeCounts done;
  Progress progress(screen, kind.verb, planned);
  for (const Target& target : targets) {
    const std::int64_t before = done.total();
    operation.on_progress = [&](std::size_t changed) {
      progress.at(before + static_cast<std::int64_t>(changed));
      return !InterruptGuard::interrupted();
    };
    Admin admin(target.box.queue);
    done.add(target.box.name(),
             static_cast<std::int64_t>(kind.apply(admin, target.selection, operation)));
    if (InterruptGuard::interrupted()) break;
  }
  return done;
}

int run_operation(const CommonOptions& common, const OperationOptions& options,
                  const OperationKind& kind, const Screen& screen) {
  require_one_selection(options, kind);
  OpenStore store(common);
  std::vector<Target> targets = targets_of(store, options);
  Operation how{
      .actor = actor_of(common), .reason = common.reason, .operation_id = common.operation};
  const bool by_id = !options.ids.empty();
  // What has been begun was confirmed then.
  const bool begun = !how.operation_id.empty() &&
                     std::any_of(targets.begin(), targets.end(), [&](const Target& target) {
                       return Admin{target.box.queue}.operation(how.operation_id).has_value();
                     });
  ChangeCounts planned = begun && !common.dry_run ? ChangeCounts{} : count(targets, kind, how);
  if (common.dry_run || (planned.total() == 0 && !begun)) {
    report(screen, common, planned, (common.dry_run ? "would be " : "") + kind.done, "delivery",
           "deliveries");
    return planned.total() == 0 && by_id ? exit_negative : exit_ok;
  }
  if (!by_id && !begun && !common.yes && !confirmed(targets, kind, how, planned, screen)) {
    screen.note("nothing was changed\n");
    return exit_negative;
  }
  if (how.operation_id.empty()) {
    how.operation_id = MessageId::make(Environment{}).str();
    // An id that nobody will ask for again needs no line where there is nothing to do.
    std::vector<Target> wanted;
    std::copy_if(targets.begin(), targets.end(), std::back_inserter(wanted),
                 [&](const Target& target) { return planned.of(target.box.name()) > 0; });
    targets.swap(wanted);
  }
  const auto print_resume_command = [&] {
    screen.note("cut off; go on with:\n  " + resume_command(common, how, targets) + "\n");
  };
  const InterruptGuard guard;
  try {
    const ChangeCounts done = run_box_by_box(targets, kind, how, planned.total(), screen);
    const bool cut_off = InterruptGuard::interrupted() && is_unfinished(targets, how.operation_id);
    report(screen, common, done, kind.done, "delivery", "deliveries", how.operation_id);
    if (cut_off) print_resume_command();
    return cut_off ? exit_interrupted : done.total() == 0 && by_id ? exit_negative : exit_ok;
  } catch (const DatabaseError&) {
    print_resume_command();
    throw;
  }
}

/// `apply` for each kind of selection that the operation knows.
template <class Apply>
OperationKind operation_kind(std::string verb, std::string done, Apply apply) {
  return {std::move(verb), std::move(done),
          [apply](Admin& admin, const Selection& selection, const Operation& how) {
            return std::visit([&](const auto& what) { return apply(admin, what, how); }, selection);
          }};
}

std::vector<Option> id_options(OperationOptions& options) {
  return {{"id", "ID", "of messages", &options.ids},
          {"--all",
           "",
           "whatever the rest of the filter lets through",
           &options.all,
           {},
           false,
           "Which messages"}};
}

Option group_option(OperationOptions& options) {
  return {"--group", "NAME",          "a group that list --groups shows", &options.group, {},
          false,     "Which messages"};
}

When time_of(const OperationOptions& options) {
  if (options.delay.has_value() == options.until.has_value())
    throw CliError(exit_usage, "postpone: say until when, with one of --delay and --until");
  if (options.delay) return parse_duration("--delay", *options.delay);
  return parse_instant("--until", *options.until, std::nullopt);
}

}  // namespace

std::string actor_of(const CommonOptions& common) {
  if (!common.actor.empty()) return common.actor;
  const passwd* user = getpwuid(getuid());
  return user != nullptr ? user->pw_name : std::to_string(getuid());
}

Verb requeue_verb(CommonOptions& common) {
  auto options = std::make_shared<OperationOptions>();
  const auto run = [&common, options](const Screen& screen) {
    const Duration delay =
        options->delay ? parse_duration("--delay", *options->delay) : Duration::zero();
    return run_operation(
        common, *options,
        operation_kind("requeue", "requeued",
                       [delay](Admin& admin, const auto& what, const Operation& how) {
                         return admin.requeue(what, delay, how);
                       }),
        screen);
  };
  return {.name = "requeue",
          .group = "Operate",
          .summary = "lets dead letters be tried again",
          .text =
              "Attempts start again from zero, the error is cleared. Named by ids it happens at "
              "once; by group or filter, the number is shown and asked for.",
          .options = with(id_options(*options),
                          {{group_option(*options)},
                           options->filter.options({}),
                           {{"--delay", "DURATION", "not before, such as 10m", &options->delay},
                            {"--reason", "TEXT", "why, for the audit", &common.reason}},
                           bulk_options(common),
                           operation_options(common),
                           box_options(common),
                           store_options(common),
                           answer_options(common)}),
          .examples = {{"twinbox requeue evt_1", "one message"},
                       {"twinbox requeue --group 3fa2c1d0", "all that died of the same"},
                       {"twinbox requeue --topic order.placed --since 2h --dry-run",
                        "how many it would be"}},
          .run = run};
}

Verb postpone_verb(CommonOptions& common) {
  auto options = std::make_shared<OperationOptions>();
  const auto run = [&common, options](const Screen& screen) {
    const When when = time_of(*options);
    return run_operation(
        common, *options,
        operation_kind("postpone", "postponed",
                       [when](Admin& admin, const auto& what, const Operation& how) -> std::size_t {
                         if constexpr (requires { admin.postpone(what, when, how); }) {
                           return admin.postpone(what, when, how);
                         } else {
                           throw std::logic_error("postpone: dead letters have no time");
                         }
                       }),
        screen);
  };
  return {
      .name = "postpone",
      .group = "Operate",
      .summary = "lets ready or scheduled messages wait until a time",
      .text =
          "What a worker holds, and what waits behind another of its key, stays as it is. A "
          "time that has passed (--delay 0s) makes them due at once.",
      .options = with(id_options(*options),
                      {options->filter.options({"ready", "scheduled", "open"}),
                       {{"--delay", "DURATION", "so long from now, such as 10m", &options->delay},
                        {"--until", "TIME", "until then: 2026-11-15T20:00:00Z", &options->until},
                        {"--reason", "TEXT", "why, for the audit", &common.reason}},
                       bulk_options(common),
                       operation_options(common),
                       box_options(common),
                       store_options(common),
                       answer_options(common)}),
      .examples = {{"twinbox postpone evt_1 --delay 10m", "one message"},
                   {"twinbox postpone --topic mail.send --until 2026-11-16T06:00:00Z",
                    "a whole topic, until the mail server is back"},
                   {"twinbox postpone --state scheduled --all --delay 0s",
                    "what waits for a retry, at once"}},
      .run = run};
}

Verb discard_verb(CommonOptions& common) {
  auto options = std::make_shared<OperationOptions>();
  const auto run = [&common, options](const Screen& screen) {
    if (common.reason.empty() && !common.dry_run)
      throw CliError(exit_usage, "discard: say why, with --reason; it is kept with the messages");
    const bool by_filter = options->ids.empty() && !options->group;
    if (by_filter && !options->filter.state)
      throw CliError(exit_usage, "discard: say whether dead or open messages, with --state");
    return run_operation(common, *options,
                         operation_kind("discard", "discarded",
                                        [](Admin& admin, const auto& what, const Operation& how) {
                                          return admin.discard(what, how);
                                        }),
                         screen);
  };
  return {.name = "discard",
          .group = "Operate",
          .summary = "throws open or dead messages away, for good",
          .text =
              "They count as finished from then on, and are pruned like what is done. A worker "
              "that holds one loses it.",
          .options = with(
              id_options(*options),
              {{group_option(*options)},
               options->filter.options({"dead", "open", "ready", "scheduled", "leased", "waiting"}),
               {{"--reason", "TEXT", "why; is kept with them", &common.reason}},
               bulk_options(common),
               operation_options(common),
               box_options(common),
               store_options(common),
               answer_options(common)}),
          .examples = {{"twinbox discard evt_1 --reason 'sent twice by mistake'", "one message"},
                       {"twinbox discard --state dead --before 30d --reason old --yes",
                        "without a question, for scripts"}},
          .run = run};
}

}  // namespace twinbox::cli
