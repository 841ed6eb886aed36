// The store that a command line is about.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "daemon/config/config.hpp"
#include <twinbox/schema.hpp>
#include <twinbox/stores.hpp>

namespace twinbox::cli {

struct OpenBox {
  BoxKind kind;
  WorkQueue& queue;

  [[nodiscard]] std::string name() const { return std::string{to_string(kind)}; }
};

/// Throws CliError that names the way out when the store or its tables are not as a verb needs
/// them.
class OpenStore {
 public:
  enum class Missing { refuse, create };

  /// `missing`: what to do about a SQLite file that is not there.
  explicit OpenStore(const CommonOptions& common, Missing missing = Missing::refuse);

  [[nodiscard]] const std::string& name() const noexcept { return store_->name(); }
  [[nodiscard]] Database& database() noexcept { return store_->database(); }
  [[nodiscard]] const StoreDefinition& definition() const noexcept { return store_->definition(); }
  [[nodiscard]] const BoxOptions& options(BoxKind kind) const noexcept;

  Outbox& outbox();
  Inbox& inbox();
  /// The boxes that the command line asks for: both, where it names none. Those that have no
  /// tables are left out, unless they were named or all would be.
  std::vector<OpenBox> boxes();
  /// The same, whatever their tables.
  [[nodiscard]] std::vector<BoxKind> kinds() const;

  /// The database's clock.
  [[nodiscard]] Instant now();

 private:
  /// Throws CliError unless the tables fit this program.
  void require(BoxKind kind, const SchemaState& state) const;
  [[nodiscard]] SchemaState schema_state(BoxKind kind);

  CommonOptions common_;
  std::unique_ptr<Store> store_;
};

/// The configuration file that --config or TWINBOX_CONFIG names, or the defaults. Throws CliError
/// with every problem.
app::Config chosen_config(const CommonOptions& common);

/// Where the store is, from the command line, the environment and the configuration file.
StoreDefinition chosen_store(const CommonOptions& common);

/// Throws CliError when the address holds a password: other users of the machine can read command
/// lines.
void refuse_password(const std::string& address);

/// A file's name alone becomes `sqlite:<file>`.
std::string full_address(std::string address);

}  // namespace twinbox::cli
