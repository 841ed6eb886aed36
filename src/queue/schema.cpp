#include "twinbox/schema.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "database/answer_timeout.hpp"
#include "queue/box.hpp"
#include "queue/script.hpp"

namespace twinbox {
namespace {

/// The entries of one box in the table of versions: name → (version, hash).
using Applied = std::map<std::string, std::pair<int, std::string>>;

constexpr BoxKind other(BoxKind kind) {
  return kind == BoxKind::outbox ? BoxKind::inbox : BoxKind::outbox;
}

struct Tables {
  BoxName box;
  Placeholders values;
  std::shared_ptr<const StatementSet> sql;    // shared by all boxes of that name, as are the
  std::shared_ptr<const BoxScripts> scripts;  // scripts
  const BoxScripts& known;

  Tables(Dialect dialect, BoxKind kind, const BoxOptions& options)
      : box{options.schema, options.table},
        values(placeholders(dialect, box)),
        sql(shared_statements(dialect, box)),
        scripts(box_scripts(dialect, kind, box)),
        known(*scripts) {}

  std::size_t run(Session& session, std::string_view name, std::initializer_list<Arg> args = {},
                  RowSink rows = {}) const {
    return session.execute((*sql)[name], {args.begin(), args.size()}, rows);
  }
  [[nodiscard]] std::string procedure(const std::string& name) const {
    return render_text("{function:" + name + "}", values);
  }
};

Applied read_applied(Session& session, const Tables& tables) {
  Applied applied;
  tables.run(session, "applied", {{"box", tables.box.table}}, [&](const Row& row) {
    applied.emplace(row.text(0),
                    std::pair{static_cast<int>(row.integer(1)), std::string{row.text(2)}});
  });
  return applied;
}

/// A function in the database. SQL Server reports the name alone.
struct Function {
  std::string name;  ///< quoted
  std::string body;
  std::string id;         ///< survives a replacement
  std::string written;    ///< the transaction that wrote it: changes with each replacement
  std::string signature;  ///< as "drop function" wants it
  std::string grants;     ///< a line for each role, as "grant … to" wants it
};

/// The functions of the database in the schema of the box.
std::vector<Function> read_functions(Session& session, const Tables& tables) {
  std::vector<Function> found;
  tables.run(session, "functions", {{"schema", tables.box.schema}}, [&](const Row& row) {
    found.push_back({quote_identifier(tables.box.schema) + "." + quote_identifier(row.text(0)),
                     std::string{row.text(1)}, std::string{row.text(2)}, std::string{row.text(3)},
                     std::string{row.text(4)}, std::string{row.text(5)}});
  });
  return found;
}

/// Quoted names and bodies; one name may have several.
using Functions = std::set<std::pair<std::string, std::string>>;

Functions names_and_bodies(const std::vector<Function>& functions) {
  Functions result;
  for (const Function& one : functions) result.emplace(one.name, one.body);
  return result;
}

/// The functions that a script creates.
Functions functions_of(std::string_view script, const Tables& tables, Dialect dialect) {
  const bool bodies = dialect == Dialect::postgres;
  constexpr std::string_view quote = "$twinbox$";
  Functions found;
  for (const std::string& name : tables.known.functions) {
    const std::string quoted = tables.procedure(name);
    const std::string head = std::string{function_head(dialect)} + quoted;
    for (std::size_t at = script.find(head); at != std::string_view::npos;
         at = script.find(head, at + head.size())) {
      const std::size_t begin = script.find(quote, at + head.size()) + quote.size();
      found.emplace(quoted, bodies ? script.substr(begin, script.find(quote, begin) - begin) : "");
    }
  }
  return found;
}

/// The table of versions records deployments, not later changes by hand: scripts whose functions
/// are gone, or have another body, count as not applied.
void forget_edited(Session& session, const Tables& tables, Applied& applied) {
  const Functions there = names_and_bodies(read_functions(session, tables));
  for (const Script& script : tables.known.scripts) {
    if (script.version) continue;
    const Functions wanted = functions_of(script.text, tables, session.dialect());
    if (!std::ranges::includes(there, wanted)) applied.erase(script.name);
  }
}

/// On a connection of its own; nothing when there is no such table.
template <class Read>
Applied read_alone(Database& database, Read read) {
  try {
    return pool_of(database).run(Access::read, Scope::statement, read);
  } catch (const DatabaseError& error) {
    if (error.kind() != DatabaseError::Kind::missing_schema) throw;
    return {};
  }
}

SchemaState compare(const Applied& applied, const BoxScripts& known) {
  SchemaState state{.version = 0, .known_version = known.version};
  for (const auto& [name, entry] : applied) state.version = std::max(state.version, entry.first);
  for (const Script& script : known.scripts) {
    const auto found = applied.find(script.name);
    if (script.version ? *script.version > state.version
                       : found == applied.end() || found->second.second != script.hash) {
      state.pending.push_back(script.name);
    }
  }
  return state;
}

void write_version(Session& session, const Script& script, const Tables& tables) {
  tables.run(session, "write_applied",
             {{"box", tables.box.table},
              {"name", script.name},
              {"version", script.version},
              {"hash", script.hash}});
}

std::string tables_of_store(const Database& database, BoxKind kind, const BoxOptions& options) {
  return "store " + database.name() + ": the tables of the " + std::string{to_string(kind)} + " " +
         options.schema + "." + options.table;
}

/// Throws when a script of the other kind, and not of this one, has been applied.
void refuse_other_kind(const Database& database, BoxKind kind, const BoxOptions& options,
                       const Applied& applied, const Tables& tables) {
  const auto names = [](const BoxScripts& scripts) {
    std::set<std::string_view> result;
    for (const Script& script : scripts.scripts) result.insert(script.name);
    return result;
  };
  const auto foreign = box_scripts(database.dialect(), other(kind), tables.box);
  const auto own_names = names(tables.known);
  const auto foreign_names = names(*foreign);
  for (const auto& [name, entry] : applied) {
    if (own_names.contains(name) || !foreign_names.contains(name)) continue;
    throw SchemaError(tables_of_store(database, kind, options) + " belong to an " +
                      std::string{to_string(other(kind))} + " (" + name +
                      "): give each box a table name of its own in BoxOptions");
  }
}

/// The files of functions that differ from this program's.
std::string stale_functions(const SchemaState& state, const BoxScripts& known) {
  std::string names;
  for (const Script& script : known.scripts) {
    if (script.version ||
        std::find(state.pending.begin(), state.pending.end(), script.name) == state.pending.end()) {
      continue;
    }
    if (!names.empty()) names += ", ";
    names += script.name;
  }
  return names;
}

/// "create or replace" changes neither the result type of a function nor the names of its
/// arguments, and other argument types make a second function of the name. So former functions that
/// a script does not replace are dropped, and the new ones are granted to the same roles.
class Replacement {
 public:
  Replacement(Session& session, const Script& script, const Tables& tables)
      : session_(session), tables_(tables) {
    for (const auto& [name, body] : functions_of(script.text, tables, session.dialect()))
      names_.insert(name);
    for (const Function& one : present()) former_.emplace(one.id, one.written);
  }

  void run(const std::vector<std::string>& statements) {
    for (const std::string& statement : statements) {
      former_.empty() ? void(session_.execute(statement)) : create(statement);
    }
    drop([](const Function&) { return true; });
    if (!dropped_.empty()) grant();
  }

 private:
  [[nodiscard]] std::vector<Function> present() const {
    std::vector<Function> found = read_functions(session_, tables_);
    std::erase_if(found, [&](const Function& one) { return !names_.contains(one.name); });
    return found;
  }

  void create(const std::string& statement) {
    constexpr std::string_view invalid_function_definition = "42P13";
    session_.execute("savepoint twinbox_function");
    try {
      session_.execute(statement);
    } catch (const DatabaseError& error) {
      if (error.native_code() != invalid_function_definition) throw;
      session_.execute("rollback to twinbox_function");
      const std::string head{function_head(session_.dialect())};
      drop([&](const Function& one) {
        return statement.find(head + one.name) != std::string::npos;
      });
      session_.execute(statement);
    }
    session_.execute("release twinbox_function");
  }

  /// Those that have not been replaced so far.
  template <class Meant>
  void drop(const Meant& meant) {
    if (former_.empty()) return;
    for (Function& one : present()) {
      if (!former_.contains({one.id, one.written}) || !meant(one)) continue;
      session_.execute("drop function " + one.signature);
      dropped_.push_back(std::move(one));
    }
  }

  void grant() {
    std::set<std::string> replaced;  // these have kept their grants
    for (const auto& [id, written] : former_) replaced.insert(id);
    for (const Function& one : present()) {
      if (replaced.contains(one.id)) continue;
      std::set<std::string> roles;
      bool successor = false;
      for (const Function& old : dropped_) {
        if (old.name != one.name) continue;
        successor = true;
        std::istringstream lines{old.grants};
        for (std::string line; std::getline(lines, line);) roles.insert(line);
      }
      if (!successor) continue;
      session_.execute("revoke execute on function " + one.signature + " from public");
      for (const std::string& role : roles)
        session_.execute("grant execute on function " + one.signature + " to " + role);
    }
  }

  Session& session_;
  const Tables& tables_;
  std::set<std::string> names_;
  std::set<std::pair<std::string, std::string>> former_;  ///< id and written
  std::vector<Function> dropped_;
};

void apply(Session& session, const Script& script, const Tables& tables) {
  if (session.dialect() == Dialect::postgres && !script.version) {
    Replacement{session, script, tables}.run(split_statements(script.text, session.dialect()));
    return;
  }
  if (session.dialect() != Dialect::sqlserver || script.version) {
    for (const std::string& statement : split_statements(script.text, session.dialect()))
      session.execute(statement);
    return;
  }
  // There is no "create or replace" before 2016 SP1: an existing one is altered, and keeps its
  // grants.
  const std::string create{function_head(session.dialect())};
  const Functions there = names_and_bodies(read_functions(session, tables));
  for (std::string batch : split_statements(script.text, session.dialect())) {
    for (const std::string& name : tables.known.functions) {
      const std::string procedure = tables.procedure(name);
      if (!batch.starts_with(create + procedure)) continue;
      if (there.contains({procedure, {}})) batch.replace(0, 6, "alter");
    }
    session.execute(batch);
  }
}

/// The script of a box whose name breaks the line would go on behind the comment.
std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

[[noreturn]] void refuse_newer(const Database& database, BoxKind kind, const BoxOptions& options,
                               const SchemaState& state) {
  throw SchemaError(tables_of_store(database, kind, options) + " have version " +
                    std::to_string(state.version) + ", this program knows version " +
                    std::to_string(state.known_version) + " and older: use a newer program");
}

}  // namespace

std::string_view to_string(BoxKind kind) noexcept {
  return kind == BoxKind::outbox ? "outbox" : "inbox";
}

Schema::Schema(Database& database, BoxKind kind, BoxOptions options)
    : database_(database),
      kind_(kind),
      options_(checked_options(std::move(options), kind, database.dialect())) {}

std::vector<std::string> Schema::deploy() {
  const Tables tables(database_.dialect(), kind_, options_);
  const WithoutAnswerTimeout unlimited;
  const auto done =
      pool_of(database_).run(Access::write, Scope::transaction, [&](Session& session) {
        tables.run(session, "deploy_alone");
        tables.run(session, "create_schema");
        for (const std::string& statement :
             split_statements(tables.known.bootstrap, session.dialect()))
          session.execute(statement);
        Applied applied = read_applied(session, tables);
        refuse_other_kind(database_, kind_, options_, applied, tables);
        forget_edited(session, tables, applied);
        const SchemaState state = compare(applied, tables.known);
        if (state.too_new()) refuse_newer(database_, kind_, options_, state);
        std::vector<std::string> scripts;
        for (const Script& script : tables.known.scripts) {
          if (std::find(state.pending.begin(), state.pending.end(), script.name) ==
              state.pending.end())
            continue;
          apply(session, script, tables);
          write_version(session, script, tables);
          scripts.push_back(script.name);
        }
        return scripts;
      });
  for (const std::string& name : done) {
    database_.environment().write(LogLevel::info, "deploy",
                                  {{"store", std::string_view{database_.name()}},
                                   {"box", std::string_view{options_.table}},
                                   {"script", std::string_view{name}}});
  }
  return done;
}

SchemaState Schema::check() {
  const Tables tables(database_.dialect(), kind_, options_);
  const Applied applied = read_alone(database_, [&](Session& session) {
    Applied found = read_applied(session, tables);
    forget_edited(session, tables, found);
    return found;
  });
  return compare(applied, tables.known);
}

void Schema::require() {
  const Tables tables(database_.dialect(), kind_, options_);
  const Applied applied =
      read_alone(database_, [&](Session& session) { return read_applied(session, tables); });
  refuse_other_kind(database_, kind_, options_, applied, tables);
  const SchemaState state = compare(applied, tables.known);
  if (state.too_new()) refuse_newer(database_, kind_, options_, state);
  if (state.missing()) {
    throw SchemaError(tables_of_store(database_, kind_, options_) +
                      " are missing: create them with Schema::deploy(), with "
                      "BoxOptions{.deploy_schema = true}, or by "
                      "the script that Schema::print() gives");
  }
  if (state.version < state.known_version) {
    throw SchemaError(
        tables_of_store(database_, kind_, options_) + " have version " +
        std::to_string(state.version) + ", this program needs version " +
        std::to_string(state.known_version) +
        ": upgrade them with Schema::deploy() or with BoxOptions{.deploy_schema = true}");
  }
  const std::string stale = stale_functions(state, tables.known);
  if (stale.empty()) return;
  database_.environment().write(LogLevel::warning, "stale_functions",
                                {{"store", std::string_view{database_.name()}},
                                 {"box", std::string_view{options_.table}},
                                 {"functions", std::string_view{stale}}});
}

std::vector<RepairedSequence> Schema::repair() {
  require();
  const Tables tables(database_.dialect(), kind_, options_);
  const WithoutAnswerTimeout unlimited;
  auto repaired = pool_of(database_).run(Access::write, Scope::transaction, [&](Session& session) {
    std::vector<RepairedSequence> found;
    tables.run(session, "repair_sequences", {}, [&](const Row& row) {
      found.push_back({std::string{row.text(0)}, row.integer(1), row.integer(2)});
    });
    return found;
  });
  for (const RepairedSequence& one : repaired) {
    database_.environment().write(LogLevel::warning, "repair",
                                  {{"store", std::string_view{database_.name()}},
                                   {"box", std::string_view{options_.table}},
                                   {"sequence", std::string_view{one.column}},
                                   {"reached", one.reached},
                                   {"used", one.used}});
  }
  return repaired;
}

std::string Schema::print() const {
  const Dialect dialect = database_.dialect();
  const Tables tables(dialect, kind_, options_);
  Placeholders values = tables.values;
  std::string text = "-- The tables of the " + std::string{to_string(kind_)} + " " +
                     on_one_line(options_.schema + "." + options_.table) + ", version " +
                     std::to_string(tables.known.version) + ", for an empty database.\n\n" +
                     printed(dialect, "begin", values) + "\n" + tables.known.bootstrap + "\n";
  for (const Script& script : tables.known.scripts) {
    values["script_name"] = quote_text(script.name);
    values["script_version"] = script.version ? std::to_string(*script.version) : "null";
    values["script_hash"] = quote_text(script.hash);
    text += "-- " + script.name + "\n" + script.text + "\n" + printed(dialect, "applied", values) +
            "\n";
  }
  return text + printed(dialect, "end", values);
}

namespace {

/// Throws unless the database has roles, and `role` can be the name of one.
void check_role(Dialect dialect, const std::string& role) {
  if (dialect == Dialect::sqlite) {
    throw UsageError("grants: " + std::string{to_string(dialect)} +
                     " has no roles; protect the file with the rights of the file system");
  }
  if (role.empty() || role.find('\0') != std::string::npos ||
      role.find("$twinbox$") != std::string::npos) {
    throw std::invalid_argument(
        "role: must not be empty, and must hold neither a null byte nor $twinbox$");
  }
}

}  // namespace

std::string Schema::print_enqueue_grants(const std::string& role) const {
  const Dialect dialect = database_.dialect();
  check_role(dialect, role);
  if (kind_ != BoxKind::outbox) {
    throw UsageError(
        "grants to enqueue: an inbox has no function to enqueue; print those of an outbox");
  }
  Placeholders values = Tables(dialect, kind_, options_).values;
  values["role"] = quote_identifier(role);
  return printed(dialect, "grant_enqueue", values);
}

std::string Schema::print_grants(const std::string& role) const {
  const Dialect dialect = database_.dialect();
  check_role(dialect, role);
  const Tables tables(dialect, kind_, options_);
  Placeholders values = tables.values;
  values["role"] = quote_identifier(role);
  values["role_text"] = quote_text(role);
  std::string names;
  std::string grants;
  for (const std::string& name : tables.known.functions) {
    names += (names.empty() ? "" : ", ") + quote_text(options_.table + "_" + name);
    values["function"] = tables.procedure(name);
    grants += printed(dialect, "grant_function", values);
  }
  values["function_names"] = names;
  values["function_grants"] = grants;
  return printed(dialect, "grant", values);
}

}  // namespace twinbox
