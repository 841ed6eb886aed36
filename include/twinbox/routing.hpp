// From a key, such as a tenant's, to the boxes of its store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "twinbox/database_set.hpp"
#include "twinbox/ids.hpp"

namespace twinbox {

/// Thread-safe. What it answers stays valid while it is held, also after the store was removed from
/// the set; the same key gets the same box as long as its store is unchanged.
class Router {
 public:
  /// The name of a key's store; empty (the default): the key itself.
  using StoreOf = std::function<std::string(std::string_view key)>;

  /// `stores` must outlive it.
  explicit Router(const DatabaseSet& stores, StoreOf store_of = {});

  /// Throws UsageError when no store belongs to the key, and what opening the box throws.
  [[nodiscard]] std::shared_ptr<Outbox> outbox(std::string_view key) const;
  [[nodiscard]] std::shared_ptr<Inbox> inbox(std::string_view key) const;
  /// A UUID is the same key as its text: 8-4-4-4-12 digits, small letters.
  [[nodiscard]] std::shared_ptr<Outbox> outbox(const Uuid& key) const { return outbox(key.str()); }
  [[nodiscard]] std::shared_ptr<Inbox> inbox(const Uuid& key) const { return inbox(key.str()); }

  /// The whole store of a key. Throws UsageError.
  [[nodiscard]] std::shared_ptr<Store> store(std::string_view key) const;

 private:
  const DatabaseSet& stores_;
  StoreOf store_of_;
};

}  // namespace twinbox
