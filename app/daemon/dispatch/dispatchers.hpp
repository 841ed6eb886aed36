// The dispatchers of the daemon: one for each set of stores and kind of box with a route.
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
  /// The observer of a kind of box; it forwards every event to `next`.
  using Observe = std::function<DispatchObserver(BoxKind, DispatchObserver next)>;
  using Spans = std::function<void(const HandlerSpan&)>;

  /// The arguments must outlive the object. `dispatch_state_file` stores pauses and disabled
  /// routes.
  Dispatchers(const Stores& stores, Environment environment, Observe observe, Spans spans = {},
              std::filesystem::path dispatch_state_file = {});
  /// Stops in order: claims nothing new, gives calls in flight the grace period, settles finished
  /// calls.
  ~Dispatchers();
  Dispatchers(const Dispatchers&) = delete;
  Dispatchers& operator=(const Dispatchers&) = delete;

  /// Uses these routes from now on. Former dispatchers claim nothing more and keep their leases
  /// until their calls in flight finish. Throws std::exception if a route or a sink is invalid;
  /// then the former ones continue.
  void set(const Config& config);
  /// Ends all of them and waits.
  void stop();

  /// Empty names: everything. Kept over set() and restarts. Throws UsageError for an unknown store.
  void pause(const std::string& store, const std::string& topic);
  void resume(const std::string& store, const std::string& topic);
  /// Throws UsageError for an unknown route.
  void enable(const std::string& route);
  void disable(const std::string& route, const std::string& reason);

  /// True if events of this topic must not be handled within their request: the topic, the store or
  /// everything is paused, or the route is disabled.
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
    std::vector<OwnerToken> owners = {};  ///< of the current dispatchers
  };
  [[nodiscard]] View view() const;

 private:
  /// A dispatcher on its thread, stopped by the destructor.
  struct RunningDispatcher {
    BoxKind kind;
    DatabaseSet* stores;
    std::unique_ptr<Routes> routes;
    std::shared_ptr<std::atomic<std::int64_t>> running;  ///< calls; shared with its observer
    std::optional<Duration> drain_limit;  ///< after a reload; empty: when its calls have finished
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
                        const std::function<void(RunningDispatcher&)>& call);

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
