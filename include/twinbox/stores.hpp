// Many databases in one process: a store for each, listed once or discovered again and again.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/ids.hpp"
#include "twinbox/inbox.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

class ConnectionBudgets;

/// One database and where its boxes lie in it.
struct StoreDefinition {
  std::string name;     ///< stable: the routing key, and the store's name in every log line
  std::string address;  ///< as Database takes it; never logged, for it may hold a password
  DatabaseOptions database = {};  ///< the store's name stands in for its `name`
  BoxOptions outbox = {};
  BoxOptions inbox = {};

  /// Functions cannot be compared: two custom retry functions count as the same.
  friend bool operator==(const StoreDefinition& a, const StoreDefinition& b);
};

/// A database and its two boxes. Thread-safe.
class Store {
 public:
  /// Connects to nothing yet. Throws std::invalid_argument or std::out_of_range, naming the store.
  /// `budgets`: the connection limits that a DatabaseSet shares between its stores.
  explicit Store(StoreDefinition definition, const Environment& environment = {},
                 ConnectionBudgets* budgets = nullptr);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return definition_.name; }
  [[nodiscard]] const StoreDefinition& definition() const noexcept { return definition_; }
  [[nodiscard]] Database& database() noexcept { return *database_; }

  /// Opened on first use, by one of those who come at the same time, and kept. An opening that
  /// failed is tried again at the next use. Throws as the box's own constructor does.
  Outbox& outbox();
  Inbox& inbox();

 private:
  struct Boxes;
  StoreDefinition definition_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Boxes> boxes_;  // after the database, which must outlive them
};

struct DatabaseSetOptions {
  /// How often a discovery is asked again; zero: only by refresh().
  std::chrono::milliseconds refresh_interval = std::chrono::minutes{5};
  /// How many connections to one server (host and port) may be open, over all stores on it. Where
  /// they are used up, an idle one of another store is closed; where none is idle, callers wait.
  /// The last two are kept for threads that hold a connection of the set already, and at most a
  /// quarter is spent on learning of commits of other processes: further stores are polled.
  std::size_t connections_per_server = 20;
  /// The same for all SQLite files together. Each takes up to three file descriptors.
  std::size_t connections_to_files = 200;
  /// Connections that nobody has used for so long are closed; zero: they stay open.
  std::chrono::milliseconds idle_timeout = std::chrono::minutes{1};
};

/// A store whose definition changed is in both lists: the old one and the new one.
struct StoreChange {
  std::vector<std::shared_ptr<Store>> added;
  std::vector<std::shared_ptr<Store>> removed;
};

/// Thread-safe. Time is the steady clock's, watched by one thread; where the environment has a
/// clock of its own there is no thread, and step() is called instead.
class DatabaseSet {
 public:
  using Discover = std::function<std::vector<StoreDefinition>()>;

  /// The stores that are listed, for good. Throws std::invalid_argument, naming the store, for a
  /// name that is empty or there twice, an address that cannot be understood, and a box that two
  /// stores share.
  explicit DatabaseSet(std::vector<StoreDefinition> stores, DatabaseSetOptions options = {},
                       Environment environment = {});
  /// The stores that `discover` answers, now and at every refresh; it is called by one thread at a
  /// time. While it throws, the stores stay as they are (at first there are none), and it is asked
  /// again after 1, 2, 4 … s. A definition that cannot be used is logged and left out.
  explicit DatabaseSet(Discover discover, DatabaseSetOptions options = {},
                       Environment environment = {});
  /// Waits for a discovery that is under way. Stores live on with whoever still uses them.
  ~DatabaseSet();
  DatabaseSet(const DatabaseSet&) = delete;
  DatabaseSet& operator=(const DatabaseSet&) = delete;

  /// In the order of their definitions. Shared with whoever still uses a store after it was
  /// removed.
  [[nodiscard]] std::vector<std::shared_ptr<Store>> stores() const;
  /// Null: there is no store of that name.
  [[nodiscard]] std::shared_ptr<Store> find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const;

  /// Asks the discovery now. Unchanged stores stay the same objects. Throws what the discovery
  /// throws; the stores then stay as they are.
  void refresh();

  /// What the set's thread does: whatever is due now.
  void step();
  [[nodiscard]] const Environment& environment() const noexcept;

  /// Calls `call` at once with the stores there are, all of them added, and then after each refresh
  /// that changed something: one call at a time, in order. It must not throw, nor refresh the set,
  /// nor end a subscription. Ends with the object: no call is under way after that.
  class Subscription {
   public:
    Subscription(DatabaseSet& set, std::function<void(const StoreChange&)> call);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    DatabaseSet& set_;
    std::list<std::function<void(const StoreChange&)>>::iterator position_;
  };

 private:
  class State;
  std::unique_ptr<State> state_;
};

// From a key, such as a tenant's, to the boxes of its store.

/// Thread-safe. What it answers stays valid while it is held, also after the store was removed from
/// the set; the same key gets the same box as long as its store is unchanged.
class StoreRouter {
 public:
  /// The name of a key's store; empty (the default): the key itself.
  using StoreName = std::function<std::string(std::string_view key)>;

  /// `stores` must outlive it.
  explicit StoreRouter(const DatabaseSet& stores, StoreName store_of = {});

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
  StoreName store_of_;
};

}  // namespace twinbox
