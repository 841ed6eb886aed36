// The commands status and list.
#include <charconv>

#include "cli/filter.hpp"
#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

struct StatusOptions {
  bool history = false;
  bool topics = false;
};

struct ListOptions {
  FilterOptions filter;
  std::int64_t limit = 20;
  std::optional<std::string> after;
  bool groups = false;
};

std::string or_dash(const std::string& text) { return text.empty() ? "–" : text; }

std::string or_dash(const std::optional<Duration>& age) { return age ? age_text(*age) : "–"; }

std::string heading(const Screen& screen, const std::string& text) {
  return screen.look().paint(Style::strong, text) + "\n";
}

// ---- status

std::vector<Column> count_columns(const std::string& first, bool history) {
  std::vector<Column> columns = {{first, false, 10}, {"READY", true},   {"SCHEDULED", true},
                                 {"LEASED", true},   {"WAITING", true}, {"DEAD", true},
                                 {"OLDEST", true},   {"AGE", true}};
  if (history) {
    for (const char* title : {"DONE", "DISCARDED", "MARKED", "SEEN"})
      columns.push_back({title, true});
  }
  return columns;
}

Cell number(std::int64_t count, Style style) {
  return {std::to_string(count), count == 0 ? Style::faint : style};
}

std::vector<Cell> count_row(const std::string& name, const StateCounts& counts, bool history) {
  std::vector<Cell> row = {name,
                           number(counts.ready, Style::plain),
                           number(counts.scheduled, Style::plain),
                           number(counts.leased, Style::accent),
                           number(counts.waiting, Style::plain),
                           number(counts.dead, Style::bad),
                           or_dash(counts.oldest_pending),
                           or_dash(counts.oldest_open)};
  if (history) {
    for (const std::int64_t count : {counts.done, counts.discarded, counts.marked, counts.seen})
      row.push_back(number(count, Style::plain));
  }
  return row;
}

json::value to_json(const Counts::Other& other, bool history) {
  if (other.names == 0) return nullptr;
  return json::object{{"names", other.names}, {"counts", cli::to_json(other.counts, history)}};
}

json::object to_json(const std::map<std::string, StateCounts>& counts, bool history) {
  json::object object;
  for (const auto& [name, one] : counts) object[name] = cli::to_json(one, history);
  return object;
}

void print_details(const Screen& screen, const std::string& box, const char* title,
                   const std::map<std::string, StateCounts>& counts, const Counts::Other& other,
                   bool history) {
  // A single line would repeat the table above.
  if (counts.empty() || (counts.size() == 1 && counts.begin()->first.empty())) return;
  Table table(count_columns(title, history));
  for (const auto& [name, one] : counts)
    table.add(count_row(name.empty() ? "(by topic)" : name, one, history));
  if (other.names > 0)
    table.add(count_row("(" + std::to_string(other.names) + " others)", other.counts, history));
  screen.print("\n" + heading(screen, box) + table.text(screen.look()));
}

int status(const CommonOptions& common, const StatusOptions& options, const Screen& screen) {
  OpenStore store(common);
  json::array boxes;
  Table table(count_columns("", options.history));
  std::vector<std::pair<std::string, Counts>> all;
  for (const OpenBox& box : store.boxes()) {
    Counts counts = Admin{box.queue}.counts(options.history);
    table.add(count_row(box.name(), counts.all, options.history));
    boxes.push_back({{"box", box.name()},
                     {"counts", cli::to_json(counts.all, options.history)},
                     {"topics", to_json(counts.by_topic, options.history)},
                     {"other_topics", to_json(counts.other_topics, options.history)},
                     {"handlers", to_json(counts.by_handler, options.history)},
                     {"other_handlers", to_json(counts.other_handlers, options.history)}});
    all.emplace_back(box.name(), std::move(counts));
  }
  if (common.json) {
    print_json(screen, {{"store", store.name()}, {"boxes", std::move(boxes)}});
    return exit_ok;
  }
  screen.print(heading(screen, "store " + printable(store.name())) + table.text(screen.look()));
  if (!options.topics) return exit_ok;
  for (const auto& [box, counts] : all) {
    print_details(screen, box + " by topic", "TOPIC", counts.by_topic, counts.other_topics,
                  options.history);
    print_details(screen, box + " by handler", "HANDLER", counts.by_handler, counts.other_handlers,
                  options.history);
  }
  return exit_ok;
}

// ---- list

/// `812` or `812:handler`: the entry after which a page begins.
DeliveryKey parse_cursor(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  std::int64_t number = 0;
  const char* end = text.data() + colon;
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    throw CliError(exit_usage, "--after: '" + printable(text) +
                                   "' is not a cursor; copy it from the end of the previous page");
  }
  DeliveryKey key{number};
  if (colon + 1 < text.size()) key.handler = HandlerKey{text.substr(colon + 1)};
  return key;
}

std::string cursor(const DeliveryKey& key) {
  return std::to_string(key.number) +
         (key.handler.view().empty() ? "" : ":" + std::string{key.handler.view()});
}

void print_page(const Screen& screen, const OpenBox& box, const Page& page, Instant now) {
  const bool handlers = std::any_of(
      page.entries.begin(), page.entries.end(),
      [](const DeliveryEntry& entry) { return !entry.delivery.key.handler.view().empty(); });
  std::vector<Column> columns = {{"ID", false, 36},  {"TOPIC", false, 8}, {"STATE"},
                                 {"ATTEMPTS", true}, {"AGE", true},       {"ERROR", false, 12, 1}};
  if (handlers) columns.insert(columns.begin() + 2, {"HANDLER", false, 8});
  Table table(columns);
  for (const DeliveryEntry& entry : page.entries) {
    std::vector<Cell> row = {
        entry.message.id.str(),
        entry.message.topic ? entry.message.topic->str() : "–",
        {std::string{to_string(entry.delivery.state)}, style_of(entry.delivery.state)},
        number(entry.delivery.attempts, Style::plain),
        age_text(now - entry.message.created_at),
        {entry.delivery.last_error, Style::faint}};
    if (handlers) row.insert(row.begin() + 2, or_dash(entry.delivery.key.handler.str()));
    table.add(std::move(row));
  }
  screen.print(heading(screen, box.name()));
  screen.print(table.empty() ? "nothing\n" : table.text(screen.look()));
  if (page.next) {
    screen.print(screen.look().paint(Style::faint, "next page: --" + box.name() + " --after " +
                                                       printable(cursor(*page.next))) +
                 "\n");
  }
}

int list_entries(const CommonOptions& common, const ListOptions& options, const Screen& screen,
                 OpenStore& store, const std::vector<OpenBox>& boxes) {
  const Instant now = store.now();
  const Filter filter = options.filter.filter(now);
  std::optional<DeliveryKey> after;
  if (options.after) after = parse_cursor(*options.after);
  if (after && boxes.size() > 1)
    throw CliError(exit_usage, "--after continues one box; add --outbox or --inbox");
  json::array answer;
  for (const OpenBox& box : boxes) {
    const Page page = Admin{box.queue}.list(filter, options.limit, after);
    if (!common.json) {
      if (&box != &boxes.front()) screen.print("\n");
      print_page(screen, box, page, now);
      continue;
    }
    json::array entries;
    for (const DeliveryEntry& entry : page.entries) entries.push_back(app::to_json(entry));
    answer.push_back(
        {{"box", box.name()},
         {"entries", std::move(entries)},
         {"next", page.next ? json::value(cursor(*page.next)) : json::value(nullptr)}});
  }
  if (common.json) print_json(screen, {{"boxes", std::move(answer)}});
  return exit_ok;
}

int list_groups(const CommonOptions& common, std::int64_t limit, const Screen& screen,
                OpenStore& store, const std::vector<OpenBox>& boxes) {
  const Instant now = store.now();
  json::array answer;
  for (const OpenBox& box : boxes) {
    Table table({{"GROUP"},
                 {"COUNT", true},
                 {"TOPIC", false, 10},
                 {"HANDLER", false, 8, 1},
                 {"LAST", true},
                 {"ERROR", false, 16}});
    json::array groups;
    const DeadGroups dead = Admin{box.queue}.dead_groups(limit);
    for (const DeadGroup& group : dead.groups) {
      table.add({{group_name(group), Style::accent},
                 group.count,
                 group.topic,
                 or_dash(group.handler.str()),
                 age_text(now - group.last_at),
                 {group.error, Style::faint}});
      groups.push_back({{"group", group_name(group)},
                        {"count", group.count},
                        {"topic", group.topic},
                        {"handler", group.handler.view()},
                        {"error", group.error},
                        {"first_at", rfc3339(group.first_at)},
                        {"last_at", rfc3339(group.last_at)}});
    }
    answer.push_back({{"box", box.name()}, {"groups", std::move(groups)}, {"other", dead.other}});
    if (common.json) continue;
    if (&box != &boxes.front()) screen.print("\n");
    screen.print(heading(screen, box.name()) +
                 (table.empty() ? "no dead letters\n" : table.text(screen.look())));
    if (dead.other > 0) {
      screen.print(
          screen.look().paint(Style::faint, counted(dead.other, "dead letter") +
                                                " in smaller groups; -n shows more groups") +
          "\n");
    }
  }
  if (common.json) print_json(screen, {{"boxes", std::move(answer)}});
  return exit_ok;
}

int list(const CommonOptions& common, const ListOptions& options, const Screen& screen) {
  OpenStore store(common);
  const std::vector<OpenBox> boxes = store.boxes();
  if (options.groups) return list_groups(common, options.limit, screen, store, boxes);
  return list_entries(common, options, screen, store, boxes);
}

}  // namespace

Style style_of(DeliveryState state) {
  switch (state) {
    case DeliveryState::dead: return Style::bad;
    case DeliveryState::leased: return Style::accent;
    case DeliveryState::done: return Style::good;
    case DeliveryState::scheduled:
    case DeliveryState::waiting: return Style::warn;
    default: return Style::plain;
  }
}

Verb status_verb(CommonOptions& common) {
  auto options = std::make_shared<StatusOptions>();
  return {
      .name = "status",
      .group = "Inspect",
      .summary = "Show backlog, leased and dead counts per store",
      .options =
          with({{"--topics", "", "Also count by topic and by handler", &options->topics},
                {"--history", "", "Also count finished deliveries, which reads the whole table",
                 &options->history}},
               {box_options(common), store_options(common), answer_options(common)}),
      .examples = {{"twinbox status --topics", "where the backlog is"},
                   {"watch -n 5 twinbox status", "repeated every five seconds"}},
      .run = [&common, options](const Screen& screen) { return status(common, *options, screen); }};
}

Verb list_verb(CommonOptions& common) {
  auto options = std::make_shared<ListOptions>();
  return {
      .name = "list",
      .group = "Inspect",
      .summary = "List messages, newest first",
      .text =
          "With --groups, dead letters with the same topic, handler and error form one line. Pass "
          "the name of such a group to requeue or discard.",
      .options = with(
          options->filter.options({"ready", "scheduled", "leased", "waiting", "done", "dead",
                                   "discarded", "marked", "seen", "open", "any"}),
          {{{"-n,--limit", "COUNT", "Maximum number of lines per box (default: 20)",
             &options->limit},
            {"--after", "CURSOR", "Continue after this entry of the previous page",
             &options->after},
            {"--groups", "", "Group dead letters by topic, handler and error", &options->groups}},
           box_options(common),
           store_options(common),
           answer_options(common)}),
      .examples = {{"twinbox list --state dead --since 2h", "dead letters of the last two hours"},
                   {"twinbox list --groups", "causes of the dead letters"},
                   {"twinbox list --state dead --json | jq -r '.boxes[].entries[].id'",
                    "ids for a script"}},
      .run = [&common, options](const Screen& screen) { return list(common, *options, screen); }};
}

}  // namespace twinbox::cli
