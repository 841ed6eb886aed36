#include <algorithm>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "health/doctor_partition_keys.hpp"
#include "health/wal_reset_bug.hpp"
#include "queue/box.hpp"
#include "queue/script.hpp"
#include "twinbox/health.hpp"

namespace twinbox {
namespace {

using Level = Finding::Level;
using Settings = std::map<std::string, std::string, std::less<>>;

constexpr BoxName any_box() { return {"infra", "outbox"}; }

const Statement& statement(Dialect dialect, const BoxName& box, std::string_view name,
                           std::shared_ptr<const StatementSet>& keep) {
  keep = shared_statements(dialect, box);
  return (*keep)[name];
}

/// Runs one of the doctor's statements.
void ask(Session& session, const BoxName& box, std::string_view name, RowSink rows) {
  std::shared_ptr<const StatementSet> set;
  session.execute(statement(session.dialect(), box, name, set), {}, rows);
}

std::string seconds_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 120) return std::to_string(whole) + " s";
  if (whole < 7200) return std::to_string(whole / 60) + " min";
  return std::to_string(whole / 3600) + " h";
}

Settings read_settings(Session& session) {
  Settings settings;
  ask(session, any_box(), "doctor_settings",
      [&](const Row& row) { settings.emplace(row.text(0), row.text(1)); });
  return settings;
}

bool is(const Settings& settings, std::string_view name, std::string_view value) {
  const auto found = settings.find(name);
  return found != settings.end() && found->second == value;
}

std::string value_of(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string{} : found->second;
}

/// The settings by which PostgreSQL decides whether a commit waits for a standby.
Finding judge_replication(const Settings& settings, bool required) {
  const std::string names = value_of(settings, "synchronous_standby_names");
  const std::string commit = value_of(settings, "synchronous_commit");
  const bool waits = !names.empty() && commit != "off" && commit != "local";
  std::string found = (names.empty() ? "synchronous_standby_names is empty"
                                     : "synchronous_standby_names is '" + names + "'") +
                      ", synchronous_commit is " + commit + ": ";
  if (waits) return {"replication", Level::ok, found + "commits wait for a standby"};
  found += "commits do not wait for a standby, so a failover can undo them";
  if (!required) return {"replication", Level::ok, found};
  return {"replication", Level::error,
          found + "; with require_synchronous the box rejects every message",
          names.empty() ? "set synchronous_standby_names in postgresql.conf, then: select "
                          "pg_reload_conf();"
                        : "set synchronous_commit = on for this role"};
}

void judge_postgres(const Settings& settings, std::vector<Finding>& findings) {
  const std::size_t before = findings.size();
  const auto server_file = [](const std::string& line) {
    return "set " + line + " in postgresql.conf, then: select pg_reload_conf();";
  };
  if (is(settings, "fsync", "off")) {
    findings.push_back({"durability", Level::error,
                        "fsync is off: a crash of the machine can ruin the whole database",
                        server_file("fsync = on")});
  }
  if (is(settings, "full_page_writes", "off")) {
    findings.push_back({"durability", Level::error,
                        "full_page_writes is off: a crash can leave torn pages",
                        server_file("full_page_writes = on")});
  }
  if (is(settings, "synchronous_commit", "off")) {
    findings.push_back(
        {"durability", Level::warning,
         "synchronous_commit is off: a crash can lose the last acknowledged messages",
         "alter database … set synchronous_commit = on; or leave it out of the "
         "role's and the address's options"});
  }
  if (findings.size() == before)
    findings.push_back({"durability", Level::ok, "commits are on disk when they are acknowledged"});
  findings.push_back(judge_replication(settings, false));
  if (is(settings, "autovacuum", "off")) {
    findings.push_back({"vacuum", Level::error,
                        "autovacuum is off: the tables grow, and every claim scans dead rows",
                        server_file("autovacuum = on")});
  }
}

/// Twinbox checkpoints only where the WAL-reset bug cannot happen; other programs may do otherwise.
void name_sqlite_version(const std::string& version, std::vector<Finding>& findings) {
  findings.push_back({"version", Level::ok,
                      "SQLite " + version +
                          (has_wal_reset_bug(version)
                               ? ", which has the WAL-reset bug unless its package has the fix: "
                                 "every other program that writes to this file must set pragma "
                                 "wal_autocheckpoint = 0"
                               : "")});
}

/// A standby, and a primary in read-only mode, take no writes.
void judge_role(const Settings& settings, std::vector<Finding>& findings) {
  if (is(settings, "in_recovery", "on")) {
    findings.push_back({"role", Level::error, "the server is a standby and does not accept writes",
                        "list every host in the address, and add target_session_attrs=read-write"});
  } else if (is(settings, "transaction_read_only", "on")) {
    findings.push_back({"role", Level::error,
                        "the server is a primary, but its transactions are read-only",
                        "reset default_transaction_read_only of the server, the database and the "
                        "role"});
  }
}

void judge_sqlite(const Settings& settings, std::vector<Finding>& findings) {
  if (const auto version = settings.find("version"); version != settings.end())
    name_sqlite_version(version->second, findings);
  if (is(settings, "journal_mode", "memory")) {
    findings.push_back({"durability", Level::warning,
                        "the store is in memory: its messages are lost when the process ends",
                        "use a file: sqlite:<file>"});
    return;
  }
  const std::size_t before = findings.size();
  if (!is(settings, "journal_mode", "wal")) {
    findings.push_back({"durability", Level::warning,
                        "journal_mode is not wal: readers and the writer wait for each other",
                        "pragma journal_mode = wal;"});
  }
  if (is(settings, "synchronous", "0") || is(settings, "synchronous", "1")) {
    const bool off = is(settings, "synchronous", "0");
    findings.push_back(
        {"durability", off ? Level::error : Level::warning,
         std::string{"synchronous is "} + (off ? "off: a power cut can ruin the file"
                                               : "normal: a power cut can undo the last commits"),
         "pragma synchronous = full; on the connection that writes"});
  }
  if (findings.size() == before)
    findings.push_back({"durability", Level::ok, "commits are on disk when they are acknowledged"});
}

void judge_sqlserver(const Settings& settings, std::vector<Finding>& findings) {
  if (is(settings, "delayed_durability", "FORCED")) {
    findings.push_back(
        {"durability", Level::warning,
         "delayed durability is forced: a crash can lose the last acknowledged messages",
         "alter database current set delayed_durability = disabled;"});
  } else {
    findings.push_back({"durability", Level::ok, "commits are on disk when they are acknowledged"});
  }
  if (is(settings, "read_committed_snapshot", "off")) {
    findings.push_back({"snapshot", Level::warning,
                        "read_committed_snapshot is off: readers wait for writers",
                        "alter database current set read_committed_snapshot on;"});
  }
}

void judge_settings(Dialect dialect, const Settings& settings, std::vector<Finding>& findings) {
  if (dialect == Dialect::postgres) {
    judge_role(settings, findings);
    judge_postgres(settings, findings);
  }
  if (dialect == Dialect::sqlite) judge_sqlite(settings, findings);
  if (dialect == Dialect::sqlserver) judge_sqlserver(settings, findings);
}

Instant this_clock() { return std::chrono::floor<Duration>(std::chrono::system_clock::now()); }

Instant ask_clock(Session& session) {
  Instant now{};
  ask(session, any_box(), "doctor_clock", [&](const Row& row) { now = row.instant(0); });
  return now;
}

void examine_clock(Session& session, const DoctorLimits& limits, std::vector<Finding>& findings) {
  const Instant before = this_clock();
  const Instant theirs = ask_clock(session);
  const Instant after = this_clock();
  // The clock was read between the two: only a difference outside of them is certain.
  const Duration skew = theirs < before  ? before - theirs
                        : theirs > after ? theirs - after
                                         : Duration{0};
  const std::string text = std::to_string(skew / std::chrono::milliseconds{1}) + " ms";
  if (skew <= limits.clock_skew) {
    findings.push_back(
        {"clock", Level::ok, "this machine's and the database's are " + text + " apart"});
    return;
  }
  findings.push_back(
      {"clock", Level::warning,
       "this machine's and the database's are " + text +
           " apart: due times computed by programs are too early or too late",
       "synchronize both with the same time server (timedatectl, chronyc tracking)"});
}

void examine_held(Session& session, const DoctorLimits& limits, std::vector<Finding>& findings) {
  const std::size_t before = findings.size();
  ask(session, any_box(), "doctor_held", [&](const Row& row) {
    const double age = row.real(2);
    if (age < std::chrono::duration<double>(limits.held).count()) return;
    const std::string who{row.text(0)};
    const bool prepared = row.text(1) == "prepared";
    const std::string pid = who.substr(0, who.find(' ', 8)).substr(prepared ? 0 : 8);
    findings.push_back(
        {"vacuum", Level::warning,
         who + " has a transaction open for " + seconds_text(age) + " (" +
             std::string{row.text(1)} +
             "): vacuum cannot remove newer dead rows, and claims get slower",
         prepared ? "commit prepared or rollback prepared it"
                  : "end it in its program, or run: select pg_terminate_backend(" + pid + ");"});
  });
  if (findings.size() == before && session.dialect() == Dialect::postgres)
    findings.push_back({"vacuum", Level::ok, "no old transaction holds back vacuum"});
}

void examine_rights(const std::string& file, std::vector<Finding>& findings) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return;
  const std::string folder = std::filesystem::absolute(file).parent_path().string();
  const std::size_t before = findings.size();
  if (access(file.c_str(), W_OK) != 0) {
    findings.push_back({"file", Level::error, file + " cannot be written by this user",
                        "chown or chmod u+w " + file});
  }
  if (access(folder.c_str(), W_OK) != 0) {
    findings.push_back(
        {"file", Level::error,
         folder + " cannot be written by this user, but it contains the write-ahead log",
         "chown or chmod u+w " + folder});
  }
  if ((status.st_mode & (S_IWOTH | S_IROTH)) != 0) {
    const bool write = (status.st_mode & S_IWOTH) != 0;
    findings.push_back({"file", write ? Level::error : Level::warning,
                        file + " can be " + (write ? "written" : "read") +
                            " by every user of this machine, including payloads",
                        "chmod o-rwx " + file});
  }
  if (findings.size() == before)
    findings.push_back({"file", Level::ok, "only its owner and group can access it"});
}

void examine_disk(const std::string& file, const DoctorLimits& limits,
                  std::vector<Finding>& findings) {
  struct statvfs disk {};
  if (statvfs(file.c_str(), &disk) != 0 || disk.f_blocks == 0) return;
  const double share = static_cast<double>(disk.f_bavail) / static_cast<double>(disk.f_blocks);
  const std::string text = std::to_string(static_cast<int>(share * 100)) + " % of the disk is free";
  if (share < limits.free_share) {
    findings.push_back({"disk", share < limits.free_share / 4 ? Level::error : Level::warning, text,
                        "free disk space; twinbox prune deletes finished messages"});
  } else {
    findings.push_back({"disk", Level::ok, text});
  }
  std::error_code none;
  const auto log = std::filesystem::file_size(file + "-wal", none);
  if (!none && static_cast<std::int64_t>(log) > limits.log_bytes) {
    findings.push_back(
        {"log", Level::warning,
         "the write-ahead log has " + std::to_string(log / 1048576) +
             " MiB: a long-running reader prevents checkpoints",
         "end long reads; the next commits of Twinbox fold the log back. To shrink the file, "
         "stop all programs that use it"});
  }
}

void examine_file(Session& session, const DoctorLimits& limits, std::vector<Finding>& findings) {
  std::string file;
  ask(session, any_box(), "doctor_file", [&](const Row& row) { file = row.text(0); });
  if (file.empty()) return;
  examine_rights(file, findings);
  examine_disk(file, limits, findings);
}

std::string hint_for(DatabaseError::Kind kind) {
  using Kind = DatabaseError::Kind;
  switch (kind) {
    case Kind::permission: return "check the user, its password and its privileges";
    case Kind::read_only:
      return "let this user write to the file and its directory, or use a server that is not a "
             "standby";
    case Kind::out_of_space: return "free space on its disk";
    case Kind::corrupt: return "check the address; if it is the right one, restore a backup";
    default: return "check the address, and whether the database runs";
  }
}

Finding unreachable(const Database& database, const DatabaseError& error) {
  return {"reach", Level::error, "store " + database.name() + " cannot be queried: " + error.what(),
          hint_for(error.kind())};
}

/// The objects that a script creates under a name of their own → the statement that creates them.
std::map<std::string, std::string> named_things(const BoxScripts& scripts, Dialect dialect) {
  std::map<std::string, std::string> things;
  for (const Script& script : scripts.scripts) {
    for (const std::string& text : split_statements(script.text, dialect)) {
      for (const std::string_view begin : {"create index ", "create unique index ",
                                           "create trigger ", "create or replace trigger "}) {
        if (!text.starts_with(begin)) continue;
        // SQL Server names the schema of a trigger, too: `"infra"."outbox_work_promote"`.
        const std::size_t dot = text.find("\".\"");
        const bool qualified = dot < text.find(' ', begin.size());
        const std::size_t open = qualified ? dot + 2 : begin.size();
        // The last one counts: a later migration may have replaced it.
        things[text.substr(open + 1, text.find('"', open + 1) - open - 1)] = text;
      }
    }
  }
  return things;
}

void examine_names(Session& session, const BoxName& box, const BoxScripts& scripts,
                   std::vector<Finding>& findings) {
  const bool sqlserver = session.dialect() == Dialect::sqlserver;
  auto missing = named_things(scripts, session.dialect());
  std::vector<std::string> invalid;
  ask(session, box, "doctor_names", [&](const Row& row) {
    const std::string name{row.text(0)};
    if (!missing.contains(name)) return;
    if (!row.boolean(1)) invalid.push_back(name);
    missing.erase(name);
  });
  for (const auto& [name, text] : missing)
    findings.push_back({"index", Level::error, name + " is missing", text + ";"});
  for (const std::string& name : invalid) {
    findings.push_back({"index", Level::error, name + " is invalid or disabled",
                        sqlserver ? "alter index … rebuild; or for a trigger: enable trigger …"
                                  : "reindex index " + quote_identifier(name) +
                                        "; or for a trigger: alter table … enable trigger"});
  }
  if (missing.empty() && invalid.empty()) findings.push_back({"index", Level::ok, "complete"});
}

void examine_vacuum(Session& session, const BoxName& box, std::vector<Finding>& findings) {
  ask(session, box, "doctor_vacuum", [&](const Row& row) {
    const std::string_view options = row.text(0);
    const bool off = options.find("autovacuum_enabled=false") != std::string_view::npos ||
                     options.find("autovacuum_enabled=off") != std::string_view::npos;
    if (!off) return;
    const std::string table = placeholders(session.dialect(), box)["work"];
    findings.push_back({"vacuum", Level::error,
                        "autovacuum is off for " + table + ": every claim scans dead rows",
                        "alter table " + table + " reset (autovacuum_enabled);"});
  });
}

/// New rows would reuse numbers: a duplicate key, or an order before older messages.
void examine_sequences(Session& session, const BoxName& box, std::vector<Finding>& findings) {
  std::string hidden;
  ask(session, box, "doctor_sequences", [&](const Row& row) {
    if (row.is_null(1)) {
      hidden += (hidden.empty() ? "" : ", ") + std::string{row.text(0)};
      return;
    }
    findings.push_back({"sequence", Level::error,
                        "the sequence of " + std::string{row.text(0)} + " has reached " +
                            std::to_string(row.integer(1)) + ", but numbers up to " +
                            std::to_string(row.integer(2)) +
                            " are in use: writes fail, or new messages overtake old ones",
                        "twinbox schema repair"});
  });
  if (hidden.empty()) return;
  findings.push_back({"sequence", Level::warning,
                      "this role may not read the sequences of " + hidden +
                          ", so the doctor cannot compare them with the data",
                      "grant this role the rights that twinbox schema print --grants ROLE prints"});
}

Finding examine_schema(const SchemaState& state) {
  const std::string version = "version " + std::to_string(state.version);
  const std::string known = std::to_string(state.known_version);
  if (state.missing())
    return {"schema", Level::error, "the tables are missing", "twinbox schema deploy"};
  if (state.too_new())
    return {"schema", Level::error, version + " is newer than this program, which knows " + known,
            "upgrade twinbox"};
  if (state.current()) return {"schema", Level::ok, version};
  std::string names;
  for (const std::string& name : state.pending) names += (names.empty() ? "" : ", ") + name;
  if (state.version < state.known_version)
    return {"schema", Level::error, version + ", this program needs " + known + ": " + names,
            "twinbox schema deploy"};
  return {"schema", Level::warning, "different from this program's version: " + names,
          "twinbox schema deploy"};
}

}  // namespace

std::string_view to_string(Finding::Level level) noexcept {
  switch (level) {
    case Level::ok: return "ok";
    case Level::warning: return "warning";
    case Level::error: return "error";
  }
  return "unknown";
}

Instant clock_of(Database& database) {
  if (database.dialect() == Dialect::sqlite) return this_clock();
  return pool_of(database).run(Access::read, Scope::statement, ask_clock);
}

std::vector<Finding> examine_session(Session& session) {
  std::vector<Finding> findings;
  judge_settings(session.dialect(), read_settings(session), findings);
  return findings;
}

std::vector<Finding> examine_database(Database& database, const DoctorLimits& limits) {
  try {
    // Through a writer: on SQLite a reader's connection says nothing about the durability of
    // commits.
    return pool_of(database).run(Access::write, Scope::transaction, [&](Session& session) {
      std::vector<Finding> findings = {{"reach", Level::ok, database.name()}};
      examine_clock(session, limits, findings);
      judge_settings(session.dialect(), read_settings(session), findings);
      examine_held(session, limits, findings);
      examine_file(session, limits, findings);
      return findings;
    });
  } catch (const DatabaseError& error) {
    return {unreachable(database, error)};
  }
}

std::vector<Finding> examine_box(Database& database, BoxKind kind, BoxOptions options) {
  options = checked_options(std::move(options), kind, database.dialect());
  const BoxName box{options.schema, options.table};
  try {
    const SchemaState state = Schema{database, kind, options}.check();
    std::vector<Finding> findings = {examine_schema(state)};
    if (state.version != state.known_version) return findings;
    pool_of(database).run(Access::read, Scope::transaction, [&](Session& session) {
      findings.resize(1);
      examine_names(session, box, *box_scripts(database.dialect(), kind, box), findings);
      examine_vacuum(session, box, findings);
      examine_sequences(session, box, findings);
      examine_order(session, box, database.environment().now(), findings);
      if (options.require_synchronous)
        findings.push_back(judge_replication(read_settings(session), true));
    });
    return findings;
  } catch (const DatabaseError& error) {
    return {unreachable(database, error)};
  }
}

Finding compare_backlog(const StateCounts& before, const StateCounts& after, Duration between) {
  using namespace std::chrono_literals;
  const std::string due =
      std::to_string(after.ready) + " due, " + std::to_string(after.leased) + " held by workers";
  const bool old = after.oldest_pending.value_or(0us) > 1min;
  if (after.ready > 0 && after.leased == 0 && before.leased == 0 && old &&
      after.ready >= before.ready) {
    return {"backlog", Level::error, due + ": no worker handles them",
            "start a dispatcher (twinbox serve), or check whether it is paused"};
  }
  const std::int64_t growth = after.ready - before.ready;
  if (growth > 0 && old) {
    return {"backlog", Level::warning,
            due + ", " + std::to_string(growth) + " more than " + std::to_string(between / 1ms) +
                " ms before: more messages arrive than are handled",
            "add workers or make handlers faster; twinbox status --topics shows the topics"};
  }
  return {"backlog", Level::ok, due};
}

}  // namespace twinbox
