#include "daemon/store/stores.hpp"

#include <twinbox/error.hpp>

namespace twinbox::app {

WorkQueue& box_of(Store& store, BoxKind kind) {
  if (kind == BoxKind::outbox) return store.outbox();
  return store.inbox();
}

void require_tables(Store& store, BoxKind kind, const std::filesystem::path& config_file) {
  const StoreDefinition& definition = store.definition();
  const BoxOptions& options = kind == BoxKind::outbox ? definition.outbox : definition.inbox;
  if (options.deploy_schema) return;
  const SchemaState state = Schema{store.database(), kind, options}.check();
  if (state.version >= state.known_version) return;
  const std::string from = config_file.empty() ? "" : " --config " + config_file.string();
  throw SchemaError("store " + store.name() + ": the tables of the " +
                    std::string{to_string(kind)} +
                    (state.missing() ? " are missing" : " have an older version") +
                    "; run twinbox schema deploy" + from + " --store " + store.name() +
                    ", or set store." + store.name() + ".deploy = true");
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
  for (const ServedStore& entry : entries_) {
    if (!serves(entry.boxes, kind)) continue;
    if (name.empty() ? entries_.size() == 1 : entry.store->name() == name) {
      return entry.store.get();
    }
  }
  return nullptr;
}

}  // namespace twinbox::app
