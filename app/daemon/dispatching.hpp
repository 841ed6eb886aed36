// The dispatchers of the daemon: for each set of stores and kind of box that a route speaks of.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/stores.hpp"
#include "daemon/switches.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event_handler.hpp>
#include <twinbox/route.hpp>

namespace twinbox::app {

/// Thread-safe.
class Dispatching {
 public:
  /// The observer of a kind of box; what it is told is also told to `next`.
  using Observe = std::function<DispatchObserver(BoxKind, DispatchObserver next)>;
  using Spans = std::function<void(const HandlerSpan&)>;

  /// What is given must outlive it. `switch_file` keeps over restarts what is paused or disabled.
  Dispatching(const Stores& stores, Environment environment, Observe observe, Spans spans = {},
              std::filesystem::path switch_file = {});
  /// Stops in order: nothing new is claimed, what runs gets its grace, what has finished is
  /// settled.
  ~Dispatching();
  Dispatching(const Dispatching&) = delete;
  Dispatching& operator=(const Dispatching&) = delete;

  /// Works by these routes from now on. Former dispatchers claim nothing more, finish what runs and
  /// keep their leases until then. Throws std::exception when a route or a sink cannot be made; the
  /// former ones then go on.
  void set(const Config& config);
  /// Ends all of them and waits.
  void stop();

  /// Empty names: everything. Remembered over set() and restarts. Throws UsageError when there is
  /// no such store.
  void pause(const std::string& store, const std::string& topic);
  void resume(const std::string& store, const std::string& topic);
  /// Throws UsageError when there is no such route.
  void enable(const std::string& route);
  void disable(const std::string& route, const std::string& reason);

  /// Whether an event of that topic is not to be handled within its request: it, its store or
  /// everything is paused, or its route is disabled.
  [[nodiscard]] bool holds(const std::string& store, const std::string& topic) const;

  struct RouteView {
    BoxKind box;
    RouteStatus status;
  };
  struct View {
    bool paused = false;
    std::vector<std::string> paused_stores = {};
    std::vector<std::string> paused_topics = {};
    std::vector<RouteView> routes = {};
    std::vector<OwnerToken> owners = {};  ///< of the dispatchers that claim now
  };
  [[nodiscard]] View view() const;

 private:
  /// A dispatcher on its thread. Ends with the object.
  struct Desk {
    BoxKind kind;
    DatabaseSet* stores;
    std::unique_ptr<Routes> routes;
    std::shared_ptr<std::atomic<std::int64_t>> running;  ///< calls; shared with its observer
    std::optional<Duration> leaves_within;  ///< after a reload; empty: when its calls have ended
    std::unique_ptr<Dispatcher> dispatcher;
    std::jthread thread;
  };
  using Desks = std::vector<std::unique_ptr<Desk>>;

  Desks make(const Config& config);
  static void start(Desk& desk, const Switches& switches);
  static void leave(std::unique_ptr<Desk> desk, const std::stop_token& stop);
  void keep_house();
  static void disable_routes(const Desks& desks, const Switches& switches);
  [[nodiscard]] RouteObserver remember(BoxKind kind);
  void each_of(const std::string& store, const std::function<void(Desk&)>& act);

  const Stores& stores_;
  Environment environment_;
  Observe observe_;
  Spans spans_;
  SwitchBoard switches_;
  mutable std::mutex mutex_;
  Desks desks_;
  struct Leaving {
    std::shared_ptr<std::atomic<bool>> gone;  ///< shared with the thread
    std::jthread thread;
  };
  std::list<Leaving> leaving_;      ///< former dispatchers
  std::list<std::jthread> chores_;  ///< housekeeping of boxes without a dispatcher
};

}  // namespace twinbox::app
