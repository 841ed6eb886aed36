// Many databases in one process: a store for each, listed once or discovered repeatedly.
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

/// One database and the tables of its boxes.
struct StoreDefinition {
  std::string name;     ///< stable: the routing key, and the store's name in every log line
  std::string address;  ///< as Database takes it; never logged, since it may contain a password
  DatabaseOptions database = {};  ///< the store's name replaces its `name`
  BoxOptions outbox = {};
  BoxOptions inbox = {};

  /// Functions cannot be compared: two custom retry functions count as the same.
  friend bool operator==(const StoreDefinition& a, const StoreDefinition& b);
};

/// A database and its two boxes. Thread-safe.
class Store {
 public:
  /// Does not connect yet. Throws std::invalid_argument or std::out_of_range, naming the store.
  /// `budgets`: the connection limits that a DatabaseSet shares between its stores.
  explicit Store(StoreDefinition definition, const Environment& environment = {},
                 ConnectionBudgets* budgets = nullptr);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return definition_.name; }
  [[nodiscard]] const StoreDefinition& definition() const noexcept { return definition_; }
  [[nodiscard]] Database& database() noexcept { return *database_; }

  /// Opened on first use by one of the concurrent callers, and kept. A failed opening is retried at
  /// the next use. Throws as the box's own constructor does.
  Outbox& outbox();
  Inbox& inbox();

 private:
  struct Boxes;
  StoreDefinition definition_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Boxes> boxes_;  // after the database, which must outlive them
};

struct DatabaseSetOptions {
  /// The interval between discoveries; zero: only by refresh().
  std::chrono::milliseconds refresh_interval = std::chrono::minutes{5};
  /// How many connections to one server (host and port) may be open, over all stores on it. When
  /// all are used, an idle one of another store is closed; without an idle one, callers wait. The
  /// last two are reserved for threads that already hold a connection of the set, and at most a
  /// quarter is used to listen for commits of other processes: further stores are polled.
  std::size_t connections_per_server = 20;
  /// The same for all SQLite files together. Each takes up to three file descriptors.
  std::size_t connections_to_files = 200;
  /// Connections idle for this long are closed; zero: they stay open.
  std::chrono::milliseconds idle_timeout = std::chrono::minutes{1};
};

/// A store whose definition changed is in both lists: the old one and the new one.
struct StoreChange {
  std::vector<std::shared_ptr<Store>> added;
  std::vector<std::shared_ptr<Store>> removed;
};

/// Thread-safe. One thread watches the time, by the steady clock; if the environment has a clock of
/// its own there is no thread, and you call step() instead.
class DatabaseSet {
 public:
  using Discover = std::function<std::vector<StoreDefinition>()>;

  /// A fixed list of stores. Throws std::invalid_argument, naming the store, for a name that is
  /// empty or listed twice, an address that cannot be parsed, and a box that two stores share.
  explicit DatabaseSet(std::vector<StoreDefinition> stores, DatabaseSetOptions options = {},
                       Environment environment = {});
  /// The stores that `discover` returns, now and at every refresh; one thread at a time calls it.
  /// While it throws, the stores stay unchanged (at first there are none), and the call is retried
  /// after 1, 2, 4 … s. An unusable definition is logged and left out.
  explicit DatabaseSet(Discover discover, DatabaseSetOptions options = {},
                       Environment environment = {});
  /// Waits for a running discovery. Stores live on while they are used.
  ~DatabaseSet();
  DatabaseSet(const DatabaseSet&) = delete;
  DatabaseSet& operator=(const DatabaseSet&) = delete;

  /// In the order of their definitions. A removed store lives on while it is used.
  [[nodiscard]] std::vector<std::shared_ptr<Store>> stores() const;
  /// Null: no store of that name.
  [[nodiscard]] std::shared_ptr<Store> find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const;

  /// Runs the discovery now. Unchanged stores stay the same objects. Throws the exception of the
  /// discovery; the stores then stay unchanged.
  void refresh();

  /// One step of the set's thread: everything that is due now.
  void step();
  [[nodiscard]] const Environment& environment() const noexcept;

  /// Calls `call` immediately with the current stores, all as added, and then after each refresh
  /// with changes: one call at a time, in order. It must not throw, refresh the set or end a
  /// subscription. Ends with the object: no call is in progress after that.
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

// Maps a key, such as a tenant's, to the boxes of its store.

/// Thread-safe. A result stays valid while you hold it, even after the store was removed from the
/// set; the same key gets the same box as long as its store is unchanged.
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
