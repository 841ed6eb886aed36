// The commands audit and workers.
#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include <twinbox/health.hpp>
#include <twinbox/housekeeping.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::cli {
namespace {

namespace json = boost::json;

struct AuditOptions {
  std::int64_t limit = 20;
  std::int64_t after = 0;
};

json::object entry_json(const AuditEntry& entry) {
  return {{"id", entry.id},
          {"action", entry.action},
          {"actor", entry.actor},
          {"reason", entry.reason},
          {"operation_id",
           entry.operation_id.empty() ? json::value(nullptr) : json::value(entry.operation_id)},
          {"number", entry.number ? json::value(*entry.number) : json::value(nullptr)},
          {"affected", entry.affected},
          {"started_at", rfc3339(entry.started_at)},
          {"at", rfc3339(entry.at)},
          {"finished", entry.finished}};
}

std::string or_dash(const std::string& text) { return text.empty() ? "–" : text; }

std::string heading(const Screen& screen, const std::string& text) {
  return screen.look().paint(Style::strong, text) + "\n";
}

void print_audit(const Screen& screen, const OpenBox& box, const AuditPage& page) {
  Table table({{"AT (UTC)"},
               {"WHO", false, 8},
               {"ACTION"},
               {"COUNT", true},
               {"END"},
               {"REASON", false, 12},
               {"OPERATION", false, 12, 1}});
  for (const AuditEntry& entry : page.entries) {
    table.add({date_text(entry.at),
               or_dash(entry.actor),
               entry.action,
               entry.affected,
               entry.finished ? Cell{"finished"} : Cell{"unfinished", Style::warn},
               {or_dash(entry.reason), Style::faint},
               {or_dash(entry.operation_id), Style::faint}});
  }
  screen.print(heading(screen, box.name()) +
               (table.empty() ? "nothing\n" : table.text(screen.look())));
  if (page.next) {
    screen.print(screen.look().paint(Style::faint, "next page: --" + box.name() + " --after " +
                                                       std::to_string(*page.next)) +
                 "\n");
  }
}

AuditPage page_of(const OpenBox& box, const CommonOptions& common, const AuditOptions& options) {
  Admin admin(box.queue);
  if (common.operation.empty())
    return admin.audit(options.limit,
                       options.after > 0 ? std::optional{options.after} : std::nullopt);
  AuditPage page;
  if (auto entry = admin.operation(common.operation)) page.entries.push_back(std::move(*entry));
  return page;
}

int audit(const CommonOptions& common, const AuditOptions& options, const Screen& screen) {
  OpenStore store(common);
  const std::vector<OpenBox> boxes = store.boxes();
  if (options.after > 0 && boxes.size() > 1)
    throw CliError(exit_usage, "--after continues one box; add --outbox or --inbox");
  json::array answer;
  bool found = false;
  for (const OpenBox& box : boxes) {
    const AuditPage page = page_of(box, common, options);
    found = found || !page.entries.empty();
    json::array entries;
    for (const AuditEntry& entry : page.entries) entries.push_back(entry_json(entry));
    answer.push_back({{"box", box.name()},
                      {"entries", std::move(entries)},
                      {"next", page.next ? json::value(*page.next) : json::value(nullptr)}});
    if (common.json) continue;
    if (&box != &boxes.front()) screen.print("\n");
    print_audit(screen, box, page);
  }
  if (common.json) print_json(screen, {{"boxes", std::move(answer)}});
  return !found && !common.operation.empty() ? exit_negative : exit_ok;
}

// ---- workers

/// A registered worker, or an owner of which only the leases are known.
struct WorkerRow {
  std::optional<Worker> worker;
  std::string owner;
  std::int64_t leases = 0;
};

std::vector<WorkerRow> worker_rows(WorkQueue& queue) {
  std::map<Uuid, std::int64_t> leases = Admin{queue}.counts().by_owner;
  std::vector<WorkerRow> result;
  for (const Worker& worker : Workers{queue}.list()) {
    result.push_back({worker, worker.owner.str(), leases[worker.owner.uuid()]});
    leases.erase(worker.owner.uuid());
  }
  for (const auto& [owner, count] : leases) result.push_back({{}, owner.str(), count});
  return result;
}

void print_workers(const Screen& screen, const OpenBox& box, const std::vector<WorkerRow>& all,
                   const std::vector<LeaseHolder>& held, Instant now) {
  Table table({{"NAME", false, 12},
               {"VERSION"},
               {"SINCE", true},
               {"SEEN", true},
               {"LEASES", true},
               {"DONE", true},
               {"FAILED", true},
               {"OWNER", false, 8, 1}});
  for (const WorkerRow& one : all) {
    table.add({one.worker ? one.worker->name : "–",
               one.worker ? one.worker->version : "–",
               one.worker ? age_text(now - one.worker->started_at) : "–",
               one.worker ? age_text(now - one.worker->seen_at) : "–",
               one.leases,
               one.worker ? Cell{one.worker->done} : Cell{"–"},
               one.worker ? Cell{one.worker->failed} : Cell{"–"},
               {one.owner, Style::faint}});
  }
  screen.print(heading(screen, box.name()) +
               (table.empty() ? "no workers\n" : table.text(screen.look())));
  if (held.empty()) return;
  Table names({{"NAMED LEASE", false, 12}, {"ENDS", true}, {"OWNER", false, 8, 1}});
  for (const LeaseHolder& one : held) {
    names.add({one.lease.name.str(),
               relative_text(one.until, now),
               {one.lease.owner.str(), Style::faint}});
  }
  screen.print(names.text(screen.look()));
}

json::object workers_json(const OpenBox& box, const std::vector<WorkerRow>& all,
                          const std::vector<LeaseHolder>& held) {
  json::array workers;
  for (const WorkerRow& one : all) {
    json::object object = {{"owner", one.owner}, {"leases", one.leases}, {"name", nullptr}};
    if (one.worker) {
      object["name"] = one.worker->name;
      object["version"] = one.worker->version;
      object["started_at"] = rfc3339(one.worker->started_at);
      object["seen_at"] = rfc3339(one.worker->seen_at);
      object["done"] = one.worker->done;
      object["failed"] = one.worker->failed;
    }
    workers.push_back(std::move(object));
  }
  json::array leases;
  for (const LeaseHolder& one : held) {
    leases.push_back({{"name", one.lease.name.str()},
                      {"owner", one.lease.owner.str()},
                      {"until", rfc3339(one.until)}});
  }
  return {{"box", box.name()}, {"workers", std::move(workers)}, {"leases", std::move(leases)}};
}

int workers(const CommonOptions& common, const Screen& screen) {
  OpenStore store(common);
  const std::vector<OpenBox> boxes = store.boxes();
  json::array answer;
  for (const OpenBox& box : boxes) {
    const std::vector<WorkerRow> all = worker_rows(box.queue);
    const std::vector<LeaseHolder> held = NamedLeases{box.queue}.held();
    answer.push_back(workers_json(box, all, held));
    if (common.json) continue;
    if (&box != &boxes.front()) screen.print("\n");
    print_workers(screen, box, all, held, store.now());
  }
  if (common.json) print_json(screen, {{"boxes", std::move(answer)}});
  return exit_ok;
}

}  // namespace

Verb audit_verb(CommonOptions& common) {
  auto options = std::make_shared<AuditOptions>();
  return {
      .name = "audit",
      .group = "Inspect",
      .summary = "Show who changed what, and when",
      .text =
          "The newest operation comes first. With --operation, the command shows one operation and "
          "its progress; exit code 1 means that it does not exist.",
      .options = with(
          {{"-n,--limit", "COUNT", "Maximum number of entries (default: 20)", &options->limit},
           {"--after", "ID", "Continue after this entry of the previous page", &options->after},
           {"--operation", "ID", "Show only this operation", &common.operation}},
          {box_options(common), store_options(common), answer_options(common)}),
      .examples = {{"twinbox audit", "latest operations"},
                   {"twinbox audit --operation 0190b3c2-7d11-7c41-a2f0-6d6f0c2f1b1e",
                    "progress of one operation"}},
      .run = [&common, options](const Screen& screen) { return audit(common, *options, screen); }};
}

Verb workers_verb(CommonOptions& common) {
  return {.name = "workers",
          .group = "Inspect",
          .summary = "Show running workers and what they hold",
          .text =
              "A dispatcher sends a heartbeat every 15 seconds. A worker that stopped sending them "
              "stays in the list for a day. Named leases show which process runs a task that only "
              "one process may run.",
          .options = with({}, {box_options(common), store_options(common), answer_options(common)}),
          .examples = {{"twinbox workers", "all workers"}},
          .run = [&common](const Screen& screen) { return workers(common, screen); }};
}

}  // namespace twinbox::cli
