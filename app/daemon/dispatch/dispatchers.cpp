#include "daemon/dispatch/dispatchers.hpp"

#include <algorithm>
#include <condition_variable>
#include <stdexcept>

#include "daemon/dispatch/sinks.hpp"
#include "daemon/http/http_router.hpp"
#include <twinbox/database.hpp>

namespace twinbox::app {
namespace {

bool has_store(DatabaseSet& set, const std::string& name) { return set.find(name) != nullptr; }

/// Housekeeping for boxes without a dispatcher; an unreachable store is retried.
void run_housekeeping(Store& store, BoxKind kind, const DispatchObserver& observer,
                      const Environment& environment, std::stop_token stop) {
  const auto told = [&](const ChoreReport& report) {
    if (observer.chore) observer.chore(store.name(), report);
  };
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    try {
      WorkQueue& box = [&]() -> WorkQueue& {
        const StopScope until_stop{stop};
        return box_of(store, kind);
      }();
      Housekeeping{box, {}, told}.run(stop);
    } catch (const std::exception& error) {
      if (stop.stop_requested()) return;
      environment.write(LogLevel::warning, "housekeeping_failed",
                        {{"store", store.name()}, {"error", error.what()}});
    }
    std::unique_lock lock{mutex};
    wake.wait_for(lock, stop, std::chrono::seconds{5}, [] { return false; });
  }
}

DispatcherOptions options_of(const Config& config, BoxKind kind) {
  DispatcherOptions options = config.dispatch;
  options.missing = "a [[route]] with box = \"" + std::string{to_string(kind)} +
                    "\" and this topic, or a pattern that matches it";
  if (!config.file.empty()) options.missing += ", in " + config.file.string();
  return options;
}

}  // namespace

Dispatchers::Dispatchers(const Stores& stores, Environment environment, Observe observe,
                         Spans spans, std::filesystem::path dispatch_state_file)
    : stores_(stores),
      environment_(std::move(environment)),
      observe_(std::move(observe)),
      spans_(std::move(spans)),
      dispatch_state_(std::move(dispatch_state_file), environment_) {}

Dispatchers::~Dispatchers() { stop(); }

Dispatchers::RunningDispatchers Dispatchers::make(const Config& config) {
  SinkFactory sinks{config, stores_, environment_, spans_};
  RunningDispatchers dispatchers;
  for (const Stores::Set& set : stores_.sets()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (!serves(set.boxes, kind)) continue;
      std::vector<Route> routes = sinks.routes(kind, set.stores->stores());
      if (routes.empty()) continue;
      auto running_dispatcher = std::make_unique<RunningDispatcher>();
      running_dispatcher->kind = kind;
      running_dispatcher->stores = set.stores.get();
      running_dispatcher->routes =
          std::make_unique<Routes>(std::move(routes), route_observer(kind), environment_);
      running_dispatcher->running = std::make_shared<std::atomic<std::int64_t>>(0);
      // If the number of dispatchers is limited, the next one waits for the slot of this one.
      if (config.dispatch.processors > 0) running_dispatcher->drain_limit = config.dispatch.grace;
      DispatchObserver counting;
      counting.started = [running = running_dispatcher->running](std::string_view, const Message&,
                                                                 Duration) { ++*running; };
      counting.handled = [running = running_dispatcher->running](std::string_view, const Message&,
                                                                 const Outcome&,
                                                                 Duration) { --*running; };
      running_dispatcher->dispatcher = std::make_unique<Dispatcher>(
          *set.stores, kind, running_dispatcher->routes->handlers(), options_of(config, kind),
          observe_(kind, std::move(counting)));
      dispatchers.push_back(std::move(running_dispatcher));
    }
  }
  return dispatchers;
}

/// Sinks call it, too, so it must not take the lock of this object.
RouteObserver Dispatchers::route_observer(BoxKind kind) {
  RouteObserver observer;
  observer.disabled = [this, kind](std::string_view route, std::string_view reason) {
    dispatch_state_.change([&](DispatchState& dispatch_state) {
      dispatch_state.routes[{kind, std::string{route}}] = std::string{reason};
    });
  };
  observer.enabled = [this, kind](std::string_view route) {
    dispatch_state_.change([&](DispatchState& dispatch_state) {
      dispatch_state.routes.erase({kind, std::string{route}});
    });
  };
  return observer;
}

/// A receiver that disabled its route is not called again after a reload or a restart.
void Dispatchers::disable_routes(const RunningDispatchers& dispatchers,
                                 const DispatchState& dispatch_state) {
  for (const auto& running_dispatcher : dispatchers) {
    for (const RouteStatus& route : running_dispatcher->routes->status()) {
      const auto found = dispatch_state.routes.find({running_dispatcher->kind, route.name});
      if (found != dispatch_state.routes.end())
        running_dispatcher->routes->disable(route.name, found->second);
    }
  }
}

void Dispatchers::start(RunningDispatcher& running_dispatcher,
                        const DispatchState& dispatch_state) {
  if (dispatch_state.paused) running_dispatcher.dispatcher->pause();
  for (const std::string& store : dispatch_state.stores) {
    if (has_store(*running_dispatcher.stores, store))
      running_dispatcher.dispatcher->pause_store(store);
  }
  for (const std::string& topic : dispatch_state.topics)
    running_dispatcher.dispatcher->pause_topic(Topic{topic});
  running_dispatcher.thread = std::jthread{[dispatcher = running_dispatcher.dispatcher.get()](
                                               std::stop_token stop) { dispatcher->run(stop); }};
}

/// A stop request would cancel calls in flight. The dispatcher therefore stops claiming and first
/// lets them finish, within the timeouts of their sinks.
void Dispatchers::drain(std::unique_ptr<RunningDispatcher> running_dispatcher,
                        const std::stop_token& stop) {
  running_dispatcher->dispatcher->pause();
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock{mutex};
  const auto begin = std::chrono::steady_clock::now();
  const auto late = [&] {
    return running_dispatcher->drain_limit &&
           std::chrono::steady_clock::now() - begin >= *running_dispatcher->drain_limit;
  };
  while (*running_dispatcher->running > 0 && !late() && !stop.stop_requested()) {
    wake.wait_for(lock, stop, std::chrono::milliseconds{5}, [] { return false; });
  }
}

void Dispatchers::set(const Config& config) {
  RunningDispatchers next = make(config);
  const std::lock_guard lock{mutex_};
  const DispatchState dispatch_state = dispatch_state_.now();
  disable_routes(next, dispatch_state);
  for (const auto& running_dispatcher : next) start(*running_dispatcher, dispatch_state);
  std::swap(dispatchers_, next);
  draining_.remove_if([](const Draining& former) { return former.drained->load(); });
  for (auto& former : next) {
    // Nothing here waits for its handlers.
    auto drained = std::make_shared<std::atomic<bool>>(false);
    draining_.push_back(
        {drained, std::jthread{[drained](std::stop_token stop,
                                         std::unique_ptr<RunningDispatcher> running_dispatcher) {
                                 drain(std::move(running_dispatcher), stop);
                                 *drained = true;
                               },
                               std::move(former)}});
  }
  start_housekeeping();
}

void Dispatchers::start_housekeeping() {
  for (std::jthread& chore : housekeeping_threads_) chore.request_stop();
  housekeeping_threads_.clear();
  for (const Stores::ServedStore& entry : stores_.all()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      const bool dispatched =
          std::ranges::any_of(dispatchers_, [&](const auto& running_dispatcher) {
            return running_dispatcher->kind == kind &&
                   has_store(*running_dispatcher->stores, entry.store->name());
          });
      if (!serves(entry.boxes, kind) || dispatched) continue;
      housekeeping_threads_.emplace_back([this, &store = *entry.store, kind](std::stop_token stop) {
        run_housekeeping(store, kind, observe_(kind, {}), environment_, std::move(stop));
      });
    }
  }
}

void Dispatchers::stop() {
  const std::lock_guard lock{mutex_};
  for (const auto& running_dispatcher : dispatchers_) running_dispatcher->thread.request_stop();
  for (std::jthread& chore : housekeeping_threads_) chore.request_stop();
  for (Draining& former : draining_) former.thread.request_stop();
  housekeeping_threads_.clear();
  draining_.clear();
  dispatchers_.clear();
}

void Dispatchers::for_each_serving(const std::string& store,
                                   const std::function<void(RunningDispatcher&)>& call) {
  if (!store.empty() && stores_.find(store, BoxKind::outbox) == nullptr &&
      stores_.find(store, BoxKind::inbox) == nullptr) {
    throw HttpProblem(404, "unknown store '" + store + "'; GET /v1/stores lists the stores");
  }
  for (const auto& running_dispatcher : dispatchers_) {
    if (store.empty() || has_store(*running_dispatcher->stores, store)) call(*running_dispatcher);
  }
}

void Dispatchers::pause(const std::string& store, const std::string& topic) {
  if (!topic.empty() && !store.empty()) {
    throw UsageError("a topic is always paused in all stores; give either store or topic");
  }
  const std::lock_guard lock{mutex_};
  if (!topic.empty()) {
    const Topic checked{topic};
    for_each_serving("", [&](RunningDispatcher& running_dispatcher) {
      running_dispatcher.dispatcher->pause_topic(checked);
    });
    dispatch_state_.change(
        [&](DispatchState& dispatch_state) { dispatch_state.topics.insert(topic); });
  } else if (!store.empty()) {
    for_each_serving(store, [&](RunningDispatcher& running_dispatcher) {
      running_dispatcher.dispatcher->pause_store(store);
    });
    dispatch_state_.change(
        [&](DispatchState& dispatch_state) { dispatch_state.stores.insert(store); });
  } else {
    for_each_serving(
        "", [](RunningDispatcher& running_dispatcher) { running_dispatcher.dispatcher->pause(); });
    dispatch_state_.change([](DispatchState& dispatch_state) { dispatch_state.paused = true; });
  }
}

void Dispatchers::resume(const std::string& store, const std::string& topic) {
  if (!topic.empty() && !store.empty()) {
    throw UsageError("a topic is always resumed in all stores; give either store or topic");
  }
  const std::lock_guard lock{mutex_};
  if (!topic.empty()) {
    const Topic checked{topic};
    for_each_serving("", [&](RunningDispatcher& running_dispatcher) {
      running_dispatcher.dispatcher->resume_topic(checked);
    });
    dispatch_state_.change(
        [&](DispatchState& dispatch_state) { dispatch_state.topics.erase(topic); });
  } else if (!store.empty()) {
    for_each_serving(store, [&](RunningDispatcher& running_dispatcher) {
      running_dispatcher.dispatcher->resume_store(store);
    });
    dispatch_state_.change(
        [&](DispatchState& dispatch_state) { dispatch_state.stores.erase(store); });
  } else {
    for_each_serving(
        "", [](RunningDispatcher& running_dispatcher) { running_dispatcher.dispatcher->resume(); });
    dispatch_state_.change([](DispatchState& dispatch_state) { dispatch_state.paused = false; });
  }
}

void Dispatchers::enable(const std::string& route) {
  const std::lock_guard lock{mutex_};
  bool found = false;
  for (const auto& running_dispatcher : dispatchers_) {
    for (const RouteStatus& status : running_dispatcher->routes->status()) {
      if (status.name != route) continue;
      running_dispatcher->routes->enable(route);
      found = true;
    }
  }
  if (!found)
    throw HttpProblem(404, "unknown route '" + route + "'; GET /v1/dispatch lists the routes");
}

void Dispatchers::disable(const std::string& route, const std::string& reason) {
  const std::lock_guard lock{mutex_};
  bool found = false;
  for (const auto& running_dispatcher : dispatchers_) {
    for (const RouteStatus& status : running_dispatcher->routes->status()) {
      if (status.name != route) continue;
      running_dispatcher->routes->disable(route, reason);
      found = true;
    }
  }
  if (!found)
    throw HttpProblem(404, "unknown route '" + route + "'; GET /v1/dispatch lists the routes");
}

bool Dispatchers::is_switched_off(const std::string& store, const std::string& topic) const {
  const DispatchState dispatch_state = dispatch_state_.now();
  return dispatch_state.paused || dispatch_state.stores.contains(store) ||
         dispatch_state.topics.contains(topic) ||
         dispatch_state.routes.contains({BoxKind::inbox, event_route(topic)});
}

Dispatchers::View Dispatchers::view() const {
  const std::lock_guard lock{mutex_};
  const DispatchState dispatch_state = dispatch_state_.now();
  View view{.paused = dispatch_state.paused,
            .paused_stores = {dispatch_state.stores.begin(), dispatch_state.stores.end()},
            .paused_topics = {dispatch_state.topics.begin(), dispatch_state.topics.end()}};
  for (const auto& running_dispatcher : dispatchers_) {
    view.owners.push_back(running_dispatcher->dispatcher->owner());
    for (RouteStatus& status : running_dispatcher->routes->status()) {
      view.routes.push_back({running_dispatcher->kind, std::move(status)});
    }
  }
  return view;
}

}  // namespace twinbox::app
