// The commands requeue, postpone and discard.
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

/// The target of an operation: named deliveries, a filter, or a group of dead letters.
using Selection = std::variant<std::vector<DeliveryKey>, Filter, DeadGroup>;

/// The command and the change it makes.
struct OperationKind {
  std::string verb;
  std::string done;
  std::function<std::size_t(Admin&, const Selection&, const Operation&)> apply;
};

struct Target {
  OpenBox box;
  Selection selection;
};

/// Every delivery of the messages in any state, so that repeating the command repeats the same
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
  constexpr std::int64_t max_groups = 10'000;  // searched for the name
  std::vector<Target> targets;
  for (const OpenBox& box : boxes) {
    for (const DeadGroup& group : Admin{box.queue}.dead_groups(max_groups).groups) {
      if (group_name(group) == name) targets.push_back({box, group});
    }
  }
  if (targets.empty()) {
    throw CliError(exit_negative,
                   "group '" + printable(name) +
                       "' does not exist; run twinbox list --groups to see the groups");
  }
  return targets;
}

/// Requires exactly one kind of selection before the store is opened: a filter that was ignored
/// would let the operation change more messages than intended.
void require_one_selection(const OperationOptions& options, const OperationKind& kind) {
  const auto refuse = [&](const std::string& why) {
    throw CliError(exit_usage, kind.verb + ": " + why);
  };
  if (!options.ids.empty() && (options.group || options.all))
    refuse("ids cannot be combined with --group or --all; leave one out");
  FilterOptions rest = options.filter;
  if (!options.ids.empty()) {  // these select among messages with the same id
    rest.source.reset();
    rest.handler.reset();
  }
  if (options.group && rest.state == "dead")
    rest.state.reset();  // groups contain dead letters anyway
  const bool filtered = !rest.empty() || rest.state;
  if (!options.ids.empty() && filtered)
    refuse("ids can only be combined with --source and --handler; leave the other filters out");
  if (options.group && (filtered || options.all))
    refuse("--group cannot be combined with a filter or --all; leave one out");
  if (options.ids.empty() && !options.group && !options.all && !filtered)
    refuse("no messages selected; give ids, --group, a filter such as --topic, or --all");
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

/// Asks for confirmation of the number, again if it has grown before the answer.
bool confirmed(const std::vector<Target>& targets, const OperationKind& kind,
               const Operation& operation, ChangeCounts& planned, const Screen& screen) {
  std::string more;
  for (std::int64_t seen = 0; planned.total() > seen;
       more = " The number was " + std::to_string(seen) + "; use --yes to skip this check.") {
    seen = planned.total();
    if (!screen.confirm(kind.verb + " " + planned.text("delivery", "deliveries") + "?" + more))
      return false;
    planned = count(targets, kind, operation);
  }
  return true;
}

/// The command that continues this operation, quoted for a shell. Relative times become absolute.
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

/// True unless every box has finished the operation.
bool is_unfinished(const std::vector<Target>& targets, const std::string& operation) {
  return std::any_of(targets.begin(), targets.end(), [&](const Target& target) {
    const auto entry = Admin{target.box.queue}.operation(operation);
    return !entry || !entry->finished;
  });
}

/// Runs the operation box by box until it is finished or interrupted.
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
  // An operation that has started was confirmed before.
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
    // Boxes without matching deliveries need no audit entry under a new id.
    std::vector<Target> wanted;
    std::copy_if(targets.begin(), targets.end(), std::back_inserter(wanted),
                 [&](const Target& target) { return planned.of(target.box.name()) > 0; });
    targets.swap(wanted);
  }
  const auto print_resume_command = [&] {
    screen.note("interrupted; continue with:\n  " + resume_command(common, how, targets) + "\n");
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
  return {{"id", "ID", "Ids of messages", &options.ids},
          {"--all",
           "",
           "All messages that match the filter",
           &options.all,
           {},
           false,
           "Which messages"}};
}

Option group_option(OperationOptions& options) {
  return {"--group", "NAME",          "A group shown by list --groups", &options.group, {},
          false,     "Which messages"};
}

When time_of(const OperationOptions& options) {
  if (options.delay.has_value() == options.until.has_value())
    throw CliError(exit_usage, "postpone: no time given; give either --delay or --until");
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
  return {
      .name = "requeue",
      .group = "Operate",
      .summary = "Retry dead letters",
      .text =
          "Resets the attempts to zero and clears the error. Ids are requeued at once; with a "
          "group or a filter, the command shows the number and asks for confirmation.",
      .options = with(id_options(*options),
                      {{group_option(*options)},
                       options->filter.options({}),
                       {{"--delay", "DURATION",
                         "Retry no earlier than this long from now, such as 10m", &options->delay},
                        {"--reason", "TEXT", "Reason, kept in the audit", &common.reason}},
                       bulk_options(common),
                       operation_options(common),
                       box_options(common),
                       store_options(common),
                       answer_options(common)}),
      .examples = {{"twinbox requeue evt_1", "one message"},
                   {"twinbox requeue --group 3fa2c1d0", "all dead letters with the same cause"},
                   {"twinbox requeue --topic order.placed --since 2h --dry-run", "count only"}},
      .run = run};
}

Verb postpone_verb(CommonOptions& common) {
  auto options = std::make_shared<OperationOptions>();
  const auto run = [&common, options](const Screen& screen) {
    const When when = time_of(*options);
    return run_operation(
        common, *options,
        operation_kind(
            "postpone", "postponed",
            [when](Admin& admin, const auto& what, const Operation& how) -> std::size_t {
              if constexpr (requires { admin.postpone(what, when, how); }) {
                return admin.postpone(what, when, how);
              } else {
                throw std::logic_error(
                    "postpone: dead letters have no due time; requeue them with --delay");
              }
            }),
        screen);
  };
  return {
      .name = "postpone",
      .group = "Operate",
      .summary = "Delay pending messages until a given time",
      .text =
          "Deliveries that a worker holds, or that wait behind another message with the same "
          "partition key, are not changed. A time in the past (--delay 0s) makes them due at once.",
      .options = with(id_options(*options),
                      {options->filter.options({"ready", "scheduled", "open"}),
                       {{"--delay", "DURATION", "Delay from now, such as 10m", &options->delay},
                        {"--until", "TIME", "Time, such as 2026-11-15T20:00:00Z", &options->until},
                        {"--reason", "TEXT", "Reason, kept in the audit", &common.reason}},
                       bulk_options(common),
                       operation_options(common),
                       box_options(common),
                       store_options(common),
                       answer_options(common)}),
      .examples = {{"twinbox postpone evt_1 --delay 10m", "one message"},
                   {"twinbox postpone --topic mail.send --until 2026-11-16T06:00:00Z",
                    "a whole topic, until the mail server works again"},
                   {"twinbox postpone --state scheduled --all --delay 0s",
                    "retry all scheduled messages now"}},
      .run = run};
}

Verb discard_verb(CommonOptions& common) {
  auto options = std::make_shared<OperationOptions>();
  const auto run = [&common, options](const Screen& screen) {
    if (common.reason.empty() && !common.dry_run)
      throw CliError(exit_usage, "discard: a reason is required; give it with --reason");
    const bool by_filter = options->ids.empty() && !options->group;
    if (by_filter && !options->filter.state)
      throw CliError(exit_usage,
                     "discard: no state given; choose dead or open messages with --state");
    return run_operation(common, *options,
                         operation_kind("discard", "discarded",
                                        [](Admin& admin, const auto& what, const Operation& how) {
                                          return admin.discard(what, how);
                                        }),
                         screen);
  };
  return {.name = "discard",
          .group = "Operate",
          .summary = "Drop pending or dead messages",
          .text =
              "Discarded messages count as finished and are pruned after the retention period. A "
              "worker that holds one loses its lease.",
          .options = with(
              id_options(*options),
              {{group_option(*options)},
               options->filter.options({"dead", "open", "ready", "scheduled", "leased", "waiting"}),
               {{"--reason", "TEXT", "Reason, kept with the messages and in the audit",
                 &common.reason}},
               bulk_options(common),
               operation_options(common),
               box_options(common),
               store_options(common),
               answer_options(common)}),
          .examples = {{"twinbox discard evt_1 --reason 'sent twice by mistake'", "one message"},
                       {"twinbox discard --state dead --before 30d --reason old --yes",
                        "without confirmation, for scripts"}},
          .run = run};
}

}  // namespace twinbox::cli
