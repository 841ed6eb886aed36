// The tables of a box: created, upgraded, checked, printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "twinbox/database.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

enum class BoxKind { outbox, inbox };

std::string_view to_string(BoxKind kind) noexcept;

/// The result of check.
struct SchemaState {
  int version = 0;                        ///< of the tables; 0: there are none
  int known_version = 0;                  ///< of this program
  std::vector<std::string> pending = {};  ///< migrations and functions that deploy would apply

  [[nodiscard]] bool missing() const noexcept { return version == 0; }
  [[nodiscard]] bool too_new() const noexcept { return version > known_version; }
  [[nodiscard]] bool current() const noexcept {
    return version == known_version && pending.empty();
  }
};

/// A sequence that lagged behind the numbers in use, as on a promoted logical replica.
struct RepairedSequence {
  std::string column;    ///< the column that it numbers, such as `"infra"."outbox_message".number`
  std::int64_t reached;  ///< before the repair
  std::int64_t used;     ///< the highest number in the tables; the sequence continues after it

  friend bool operator==(const RepairedSequence&, const RepairedSequence&) = default;
};

class Schema {
 public:
  Schema(Database& database, BoxKind kind, BoxOptions options = {});

  /// Creates or upgrades the tables, and replaces changed functions. Safe to repeat, and safe for
  /// several deployers at once. Returns the applied steps. Throws SchemaError when the tables are
  /// newer or another kind's.
  std::vector<std::string> deploy();
  [[nodiscard]] SchemaState check();
  /// Throws SchemaError with the fix unless the tables fit this program; functions of another
  /// program version are a warning in the log (`stale_functions`).
  void require();
  /// PostgreSQL: moves every sequence that lags behind the data forward, never back. Blocks writers
  /// meanwhile. Needs the rights of the tables' owner. Returns the repaired sequences.
  std::vector<RepairedSequence> repair();
  /// The script that a DBA can run by hand, from an empty database to the current version.
  [[nodiscard]] std::string print() const;
  /// The minimal rights of an application's role (PostgreSQL, SQL Server). Throws
  /// std::invalid_argument for an invalid role name.
  [[nodiscard]] std::string print_grants(const std::string& role) const;
  /// The rights of a role that may only call `outbox_enqueue`: none on a table. Throws as
  /// print_grants, and UsageError for an inbox.
  [[nodiscard]] std::string print_enqueue_grants(const std::string& role) const;

 private:
  Database& database_;
  BoxKind kind_;
  BoxOptions options_;
};

}  // namespace twinbox
