#include "daemon/stores.hpp"

namespace twinbox::app {

WorkQueue& box_of(Store& store, BoxKind kind) {
  if (kind == BoxKind::outbox) return store.outbox();
  return store.inbox();
}

Stores::Stores(const Config& config, const Environment& environment) {
  for (const Boxes boxes : {Boxes::both, Boxes::outbox, Boxes::inbox}) {
    std::vector<StoreDefinition> definitions;
    for (const StoreConfig& store : config.stores) {
      if (store.boxes == boxes) definitions.push_back(store.definition());
    }
    if (definitions.empty()) continue;
    sets_.push_back(
        {std::make_unique<DatabaseSet>(std::move(definitions), DatabaseSetOptions{}, environment),
         boxes});
  }
  for (const StoreConfig& store : config.stores) {
    for (const Set& set : sets_) {
      if (auto found = set.stores->find(store.name)) entries_.push_back({found, set.boxes});
    }
  }
}

Store* Stores::find(std::string_view name, BoxKind kind) const {
  for (const Entry& entry : entries_) {
    if (!serves(entry.boxes, kind)) continue;
    if (name.empty() || entry.store->name() == name) return entry.store.get();
  }
  return nullptr;
}

}  // namespace twinbox::app
