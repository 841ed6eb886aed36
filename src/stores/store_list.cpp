#include "stores/store_list.hpp"

#include <set>
#include <stdexcept>
#include <utility>

#include "database/pool.hpp"
#include "queue/box.hpp"

namespace twinbox {
namespace {

/// The names and the boxes in use.
class Taken {
 public:
  /// Throws std::invalid_argument when `store` would share its name or a box with another one: two
  /// tenants would see each other's messages, and each box would be polled twice.
  void add(Store& store) {
    if (names_.contains(store.name())) {
      throw std::invalid_argument("store " + store.name() +
                                  ": the name is there twice; give each store a name of its own");
    }
    const auto& definition = store.definition();
    const std::string outbox = box(store, BoxKind::outbox, definition.outbox);
    const std::string inbox = box(store, BoxKind::inbox, definition.inbox);
    if (outbox == inbox) refuse(store.name(), "outbox", definition.outbox, "its own inbox");
    refuse_taken(store.name(), "outbox", definition.outbox, outbox);
    refuse_taken(store.name(), "inbox", definition.inbox, inbox);
    owner_of_[outbox] = owner_of_[inbox] = store.name();
    names_.insert(store.name());
  }

 private:
  static std::string box(Store& store, BoxKind kind, const BoxOptions& options) {
    const auto [server, database] = pool_of(store.database()).driver().location();
    const std::string table{options.table.empty() ? to_string(kind) : options.table};
    const std::string location =
        database.empty() ? "store " + store.name() : server + "/" + database;
    return location + '\0' + options.schema + '\0' + table;
  }

  void refuse_taken(const std::string& name, const char* kind, const BoxOptions& options,
                    const std::string& key) const {
    const auto owner = owner_of_.find(key);
    if (owner != owner_of_.end()) refuse(name, kind, options, "store " + owner->second);
  }

  [[noreturn]] static void refuse(const std::string& name, const std::string& kind,
                                  const BoxOptions& options, const std::string& owner) {
    throw std::invalid_argument(
        "store " + name + ": its " + kind + " (" + options.schema + "." +
        (options.table.empty() ? kind : options.table) + ") is in the same tables as " + owner +
        "; give it a schema or a table of its own, or let the router lead both keys to one store");
  }

  std::set<std::string> names_;
  std::map<std::string, std::string> owner_of_;  ///< box → store
};

}  // namespace

std::vector<std::shared_ptr<Store>> StoreList::all() const {
  const std::scoped_lock lock{mutex_};
  return stores_;
}

std::shared_ptr<Store> StoreList::find(std::string_view name) const {
  const std::scoped_lock lock{mutex_};
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::size_t StoreList::size() const {
  const std::scoped_lock lock{mutex_};
  return stores_.size();
}

StoreChange StoreList::replace(std::vector<StoreDefinition> definitions,
                               const Environment& environment, ConnectionBudgets& budgets,
                               const Refuse& refuse) {
  Taken taken;
  std::map<std::string, Shared, std::less<>> by_name;
  std::vector<Shared> stores(definitions.size());
  for (std::size_t i = 0; i < definitions.size(); ++i) {
    auto known = find(definitions[i].name);
    if (known == nullptr || by_name.contains(known->name())) continue;
    if (known->definition() != definitions[i]) continue;
    taken.add(*known);
    stores[i] = by_name[known->name()] = std::move(known);
  }
  StoreChange change;
  for (std::size_t i = 0; i < definitions.size(); ++i) {
    if (stores[i] != nullptr) continue;
    const std::string name = definitions[i].name;
    try {
      auto store = std::make_shared<Store>(std::move(definitions[i]), environment, &budgets);
      taken.add(*store);
      change.added.push_back(store);
      stores[i] = by_name[name] = std::move(store);
    } catch (const std::logic_error& error) {
      refuse(name, error);
    }
  }
  std::erase(stores, nullptr);

  const std::scoped_lock lock{mutex_};
  for (const Shared& store : stores_) {
    const auto found = by_name.find(store->name());
    if (found == by_name.end() || found->second != store) change.removed.push_back(store);
  }
  stores_ = std::move(stores);
  by_name_ = std::move(by_name);
  return change;
}

}  // namespace twinbox
