// The store that a command line selects.
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

/// Opens the store. Throws CliError with a way to fix it if the store or its tables cannot be used.
class OpenStore {
 public:
  enum class Missing { refuse, create };

  /// `missing`: whether to create a missing SQLite file.
  explicit OpenStore(const CommonOptions& common, Missing missing = Missing::refuse);

  [[nodiscard]] const std::string& name() const noexcept { return store_->name(); }
  [[nodiscard]] Database& database() noexcept { return store_->database(); }
  [[nodiscard]] const StoreDefinition& definition() const noexcept { return store_->definition(); }
  [[nodiscard]] const BoxOptions& options(BoxKind kind) const noexcept;

  Outbox& outbox();
  Inbox& inbox();
  /// The boxes that the command line selects, by default both. Boxes without tables are left out
  /// unless they were named. Throws if none is left.
  std::vector<OpenBox> boxes();
  /// The selected kinds, with or without tables.
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

/// The configuration from --config or TWINBOX_CONFIG, or the defaults. Throws CliError with every
/// problem.
app::Config chosen_config(const CommonOptions& common);

/// The store's definition from the command line, the environment and the configuration file.
StoreDefinition chosen_store(const CommonOptions& common);

/// Throws CliError if the address contains a password: other users of the machine can read command
/// lines.
void refuse_password(const std::string& address);

/// A plain file name becomes `sqlite:<file>`.
std::string full_address(std::string address);

}  // namespace twinbox::cli
