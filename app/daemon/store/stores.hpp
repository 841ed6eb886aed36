// The stores that the daemon serves, by name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.hpp"
#include <twinbox/schema.hpp>
#include <twinbox/stores.hpp>

namespace twinbox::app {

/// Throws like the constructor of the box.
WorkQueue& box_of(Store& store, BoxKind kind);

/// Checks the tables of a store that the daemon does not deploy. If they are missing or old, throws
/// SchemaError with a fix for operators; the library's message addresses programmers.
void require_tables(Store& store, BoxKind kind, const std::filesystem::path& config_file);

/// Thread-safe. Stores stay for the life of the daemon.
class Stores {
 public:
  /// Does not connect yet.
  Stores(const Config& config, const Environment& environment);

  struct ServedStore {
    std::shared_ptr<Store> store;  ///< shared with its set
    Boxes boxes;
  };
  [[nodiscard]] const std::vector<ServedStore>& all() const noexcept { return entries_; }
  /// An empty name means the only store. Null: no such store with such a box, or the name is empty
  /// and there are several.
  [[nodiscard]] Store* find(std::string_view name, BoxKind kind) const;

  /// A set of stores with the same boxes; for dispatchers.
  struct Set {
    std::unique_ptr<DatabaseSet> stores;
    Boxes boxes;
  };
  [[nodiscard]] const std::vector<Set>& sets() const noexcept { return sets_; }

 private:
  std::vector<Set> sets_;
  std::vector<ServedStore> entries_;
};

}  // namespace twinbox::app
