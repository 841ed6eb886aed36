// The stores of a set: which of them are kept, added and removed when the definitions change.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/stores.hpp"

namespace twinbox {

/// Thread-safe; one replace() at a time.
class StoreList {
 public:
  /// Called, where its exception can be rethrown, for an unusable definition.
  using Refuse = std::function<void(const std::string& name, const std::exception& error)>;

  [[nodiscard]] std::vector<std::shared_ptr<Store>> all() const;
  [[nodiscard]] std::shared_ptr<Store> find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const;

  /// Keeps the stores whose definitions are unchanged and creates the others. If two definitions
  /// exclude each other, an unchanged one is kept, else the first. When it throws, nothing has
  /// changed.
  StoreChange replace(std::vector<StoreDefinition> definitions, const Environment& environment,
                      ConnectionBudgets& budgets, const Refuse& refuse);

 private:
  using Shared = std::shared_ptr<Store>;

  mutable std::mutex mutex_;
  std::vector<Shared> stores_;                          ///< in the order of their definitions
  std::map<std::string, Shared, std::less<>> by_name_;  ///< the same
};

}  // namespace twinbox
