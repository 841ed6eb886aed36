// The stores of a set: which of them stay, come and go when the definitions change.
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
  /// Told, where its exception can be rethrown, of a definition that cannot be used.
  using Refuse = std::function<void(const std::string& name, const std::exception& error)>;

  [[nodiscard]] std::vector<std::shared_ptr<Store>> all() const;
  [[nodiscard]] std::shared_ptr<Store> find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const;

  /// Keeps the stores whose definitions are the same and makes the others. Where two definitions
  /// exclude each other, an unchanged one stays, and else the first. Nothing has changed when it
  /// throws.
  StoreChange replace(std::vector<StoreDefinition> definitions, const Environment& environment,
                      ConnectionBudgets& budgets, const Refuse& refuse);

 private:
  using Shared = std::shared_ptr<Store>;

  mutable std::mutex mutex_;
  std::vector<Shared> stores_;                          ///< in the order of their definitions
  std::map<std::string, Shared, std::less<>> by_name_;  ///< the same
};

}  // namespace twinbox
