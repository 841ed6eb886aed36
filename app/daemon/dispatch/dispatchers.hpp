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

#include "daemon/config/config.hpp"
#include "daemon/dispatch/dispatch_state.hpp"
#include "daemon/store/stores.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event_bus.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::app {

/// Thread-safe.
class Dispatchers {
 public:
  /// The observer of a kind of box; what it is told is also told to `next`.
  using Observe = std::function<DispatchObserver(BoxKind, DispatchObserver next)>;
  using Spans = std::function<void(const HandlerSpan&)>;

  /// What is given must outlive it. `dispatch_state_file` keeps over restarts what is paused or
  /// disabled.
  Dispatchers(const Stores& stores, Environment environment, Observe observe, Spans spans = {},
              std::filesystem::path dispatch_state_file = {});
  /// Stops in order: nothing new is claimed, what runs gets its grace, what has finished is
  /// settled.
  ~Dispatchers();
  Dispatchers(const Dispatchers&) = delete;
  Dispatchers& operator=(const Dispatchers&) = delete;

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
  [[nodiscard]] bool is_switched_off(const std::string& store, const std::string& topic) const;

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
  struct RunningDispatcher {
    BoxKind kind;
    DatabaseSet* stores;
    std::unique_ptr<Routes> routes;
    std::shared_ptr<std::atomic<std::int64_t>> running;  ///< calls; shared with its observer
    std::optional<Duration> drain_limit;  ///< after a reload; empty: when its calls have ended
    std::unique_ptr<Dispatcher> dispatcher;
    std::jthread thread;
  };
  using RunningDispatchers = std::vector<std::unique_ptr<RunningDispatcher>>;

  RunningDispatchers make(const Config& config);
  static void start(RunningDispatcher& running_dispatcher, const DispatchState& dispatch_state);
  static void drain(std::unique_ptr<RunningDispatcher> running_dispatcher,
                    const std::stop_token& stop);
  void start_housekeeping();
  static void disable_routes(const RunningDispatchers& dispatchers,
                             const DispatchState& dispatch_state);
  [[nodiscard]] RouteObserver route_observer(BoxKind kind);
  void for_each_serving(const std::string& store,
                        const std::function<void(RunningDispatcher&)>& act);

  const Stores& stores_;
  Environment environment_;
  Observe observe_;
  Spans spans_;
  DispatchStateFile dispatch_state_;
  mutable std::mutex mutex_;
  RunningDispatchers dispatchers_;
  struct Draining {
    std::shared_ptr<std::atomic<bool>> drained;  ///< shared with the thread
    std::jthread thread;
  };
  std::list<Draining> draining_;                  ///< former dispatchers
  std::list<std::jthread> housekeeping_threads_;  ///< housekeeping of boxes without a dispatcher
};

}  // namespace twinbox::app
