#include "core/text.hpp"
#include "twinbox/error.hpp"
#include "twinbox/stores.hpp"

namespace twinbox {
namespace {

/// Keys come from requests: errors show a bounded part of one.
std::string shown(std::string_view key) {
  constexpr std::size_t longest = 100;
  if (key.size() <= longest) return "'" + std::string{key} + "'";
  std::size_t end = 0;
  while (end < longest) end += decode_utf8(key, end).length;
  return "'" + std::string{key.substr(0, end)} + "…'";
}

[[noreturn]] void refuse(std::string_view key, const std::string& name, std::size_t known) {
  std::string text = "no store for key " + shown(key);
  if (name != key) text += ", whose store would be " + shown(name);
  text += ": " + std::to_string(known) + (known == 1 ? " store is" : " stores are") +
          " known; add its definition, or let the set refresh() if it is new";
  throw UsageError(text);
}

}  // namespace

StoreRouter::StoreRouter(const DatabaseSet& stores, StoreName store_of)
    : stores_(stores), store_of_(std::move(store_of)) {}

std::shared_ptr<Store> StoreRouter::store(std::string_view key) const {
  const std::string name = store_of_ ? store_of_(key) : std::string{key};
  auto store = stores_.find(name);
  if (store == nullptr) refuse(key, name, stores_.size());
  return store;
}

std::shared_ptr<Outbox> StoreRouter::outbox(std::string_view key) const {
  const auto found = store(key);
  return {found, &found->outbox()};
}

std::shared_ptr<Inbox> StoreRouter::inbox(std::string_view key) const {
  const auto found = store(key);
  return {found, &found->inbox()};
}

}  // namespace twinbox
