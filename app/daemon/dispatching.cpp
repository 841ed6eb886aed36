#include "daemon/dispatching.hpp"

#include <algorithm>
#include <condition_variable>
#include <stdexcept>

#include "daemon/router.hpp"
#include "daemon/sinks.hpp"
#include <twinbox/stop_scope.hpp>

namespace twinbox::app {
namespace {

bool has_store(DatabaseSet& set, const std::string& name) { return set.find(name) != nullptr; }

/// Housekeeping where no dispatcher does it; a store that is away is tried again.
void keep_box(Store& store, BoxKind kind, const DispatchObserver& observer,
              const Environment& environment, std::stop_token stop) {
  const auto told = [&](const ChoreReport& report) {
    if (observer.chore) observer.chore(store.name(), report);
  };
  std::mutex mutex;
  std::condition_variable_any rest;
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
    rest.wait_for(lock, stop, std::chrono::seconds{5}, [] { return false; });
  }
}

DispatcherOptions options_of(const Config& config, BoxKind kind) {
  DispatcherOptions options = config.dispatch;
  options.missing = "a [[route]] with box = \"" + std::string{to_string(kind)} +
                    "\" and this topic, or a pattern of it";
  if (!config.file.empty()) options.missing += ", in " + config.file.string();
  return options;
}

}  // namespace

Dispatching::Dispatching(const Stores& stores, Environment environment, Observe observe,
                         Spans spans, std::filesystem::path switch_file)
    : stores_(stores),
      environment_(std::move(environment)),
      observe_(std::move(observe)),
      spans_(std::move(spans)),
      switches_(std::move(switch_file), environment_) {}

Dispatching::~Dispatching() { stop(); }

Dispatching::Desks Dispatching::make(const Config& config) {
  SinkMaker sinks{config, stores_, environment_, spans_};
  Desks desks;
  for (const Stores::Set& set : stores_.sets()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (!serves(set.boxes, kind)) continue;
      std::vector<Route> routes = sinks.routes(kind, set.stores->stores());
      if (routes.empty()) continue;
      auto desk = std::make_unique<Desk>();
      desk->kind = kind;
      desk->stores = set.stores.get();
      desk->routes = std::make_unique<Routes>(std::move(routes), remember(kind), environment_);
      desk->running = std::make_shared<std::atomic<std::int64_t>>(0);
      // Where only some dispatchers may work at once, the next one waits for the place of this one.
      if (config.dispatch.processors > 0) desk->leaves_within = config.dispatch.grace;
      DispatchObserver counting;
      counting.started = [running = desk->running](std::string_view, const Message&, Duration) {
        ++*running;
      };
      counting.handled = [running = desk->running](std::string_view, const Message&, const Outcome&,
                                                   Duration) { --*running; };
      desk->dispatcher = std::make_unique<Dispatcher>(*set.stores, kind, desk->routes->handlers(),
                                                      options_of(config, kind),
                                                      observe_(kind, std::move(counting)));
      desks.push_back(std::move(desk));
    }
  }
  return desks;
}

/// Told by whoever delivers, too: without the lock of this object.
RouteObserver Dispatching::remember(BoxKind kind) {
  RouteObserver observer;
  observer.disabled = [this, kind](std::string_view route, std::string_view reason) {
    switches_.change([&](Switches& switches) {
      switches.routes[{kind, std::string{route}}] = std::string{reason};
    });
  };
  observer.enabled = [this, kind](std::string_view route) {
    switches_.change([&](Switches& switches) {
      switches.routes.erase({kind, std::string{route}});
    });
  };
  return observer;
}

/// A receiver that has said it wants nothing more is not asked again because of a reload or a
/// restart.
void Dispatching::disable_routes(const Desks& desks, const Switches& switches) {
  for (const auto& desk : desks) {
    for (const RouteStatus& route : desk->routes->status()) {
      const auto found = switches.routes.find({desk->kind, route.name});
      if (found != switches.routes.end()) desk->routes->disable(route.name, found->second);
    }
  }
}

void Dispatching::start(Desk& desk, const Switches& switches) {
  if (switches.paused) desk.dispatcher->pause();
  for (const std::string& store : switches.stores) {
    if (has_store(*desk.stores, store)) desk.dispatcher->pause_store(store);
  }
  for (const std::string& topic : switches.topics) desk.dispatcher->pause_topic(Topic{topic});
  desk.thread = std::jthread{
      [dispatcher = desk.dispatcher.get()](std::stop_token stop) { dispatcher->run(stop); }};
}

/// A request to stop would break off the calls that run; so it claims nothing more and lets them
/// end first, for as long as their sinks have.
void Dispatching::leave(std::unique_ptr<Desk> desk, const std::stop_token& stop) {
  desk->dispatcher->pause();
  std::mutex mutex;
  std::condition_variable_any rest;
  std::unique_lock lock{mutex};
  const auto begin = std::chrono::steady_clock::now();
  const auto late = [&] {
    return desk->leaves_within && std::chrono::steady_clock::now() - begin >= *desk->leaves_within;
  };
  while (*desk->running > 0 && !late() && !stop.stop_requested()) {
    rest.wait_for(lock, stop, std::chrono::milliseconds{5}, [] { return false; });
  }
}

void Dispatching::set(const Config& config) {
  Desks next = make(config);
  const std::lock_guard lock{mutex_};
  const Switches switches = switches_.now();
  disable_routes(next, switches);
  for (const auto& desk : next) start(*desk, switches);
  std::swap(desks_, next);
  leaving_.remove_if([](const Leaving& former) { return former.gone->load(); });
  for (auto& former : next) {
    // Its handlers may take their time; nobody needs to wait for them here.
    auto gone = std::make_shared<std::atomic<bool>>(false);
    leaving_.push_back(
        {gone, std::jthread{[gone](std::stop_token stop, std::unique_ptr<Desk> desk) {
                              leave(std::move(desk), stop);
                              *gone = true;
                            },
                            std::move(former)}});
  }
  keep_house();
}

void Dispatching::keep_house() {
  for (std::jthread& chore : chores_) chore.request_stop();
  chores_.clear();
  for (const Stores::Entry& entry : stores_.all()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      const bool dispatched = std::ranges::any_of(desks_, [&](const auto& desk) {
        return desk->kind == kind && has_store(*desk->stores, entry.store->name());
      });
      if (!serves(entry.boxes, kind) || dispatched) continue;
      chores_.emplace_back([this, &store = *entry.store, kind](std::stop_token stop) {
        keep_box(store, kind, observe_(kind, {}), environment_, std::move(stop));
      });
    }
  }
}

void Dispatching::stop() {
  const std::lock_guard lock{mutex_};
  for (const auto& desk : desks_) desk->thread.request_stop();
  for (std::jthread& chore : chores_) chore.request_stop();
  for (Leaving& former : leaving_) former.thread.request_stop();
  chores_.clear();
  leaving_.clear();
  desks_.clear();
}

void Dispatching::each_of(const std::string& store, const std::function<void(Desk&)>& act) {
  if (!store.empty() && stores_.find(store, BoxKind::outbox) == nullptr &&
      stores_.find(store, BoxKind::inbox) == nullptr) {
    throw Refused(404, "there is no store '" + store + "'; /v1/stores lists them");
  }
  for (const auto& desk : desks_) {
    if (store.empty() || has_store(*desk->stores, store)) act(*desk);
  }
}

void Dispatching::pause(const std::string& store, const std::string& topic) {
  if (!topic.empty() && !store.empty()) {
    throw UsageError("a topic is paused in every store: give store or topic");
  }
  const std::lock_guard lock{mutex_};
  if (!topic.empty()) {
    const Topic checked{topic};
    each_of("", [&](Desk& desk) { desk.dispatcher->pause_topic(checked); });
    switches_.change([&](Switches& switches) { switches.topics.insert(topic); });
  } else if (!store.empty()) {
    each_of(store, [&](Desk& desk) { desk.dispatcher->pause_store(store); });
    switches_.change([&](Switches& switches) { switches.stores.insert(store); });
  } else {
    each_of("", [](Desk& desk) { desk.dispatcher->pause(); });
    switches_.change([](Switches& switches) { switches.paused = true; });
  }
}

void Dispatching::resume(const std::string& store, const std::string& topic) {
  if (!topic.empty() && !store.empty()) {
    throw UsageError("a topic is resumed in every store: give store or topic");
  }
  const std::lock_guard lock{mutex_};
  if (!topic.empty()) {
    const Topic checked{topic};
    each_of("", [&](Desk& desk) { desk.dispatcher->resume_topic(checked); });
    switches_.change([&](Switches& switches) { switches.topics.erase(topic); });
  } else if (!store.empty()) {
    each_of(store, [&](Desk& desk) { desk.dispatcher->resume_store(store); });
    switches_.change([&](Switches& switches) { switches.stores.erase(store); });
  } else {
    each_of("", [](Desk& desk) { desk.dispatcher->resume(); });
    switches_.change([](Switches& switches) { switches.paused = false; });
  }
}

void Dispatching::enable(const std::string& route) {
  const std::lock_guard lock{mutex_};
  bool found = false;
  for (const auto& desk : desks_) {
    for (const RouteStatus& status : desk->routes->status()) {
      if (status.name != route) continue;
      desk->routes->enable(route);
      found = true;
    }
  }
  if (!found) throw Refused(404, "there is no route '" + route + "'; /v1/dispatch lists them");
}

void Dispatching::disable(const std::string& route, const std::string& reason) {
  const std::lock_guard lock{mutex_};
  bool found = false;
  for (const auto& desk : desks_) {
    for (const RouteStatus& status : desk->routes->status()) {
      if (status.name != route) continue;
      desk->routes->disable(route, reason);
      found = true;
    }
  }
  if (!found) throw Refused(404, "there is no route '" + route + "'; /v1/dispatch lists them");
}

bool Dispatching::holds(const std::string& store, const std::string& topic) const {
  const Switches switches = switches_.now();
  return switches.paused || switches.stores.contains(store) || switches.topics.contains(topic) ||
         switches.routes.contains({BoxKind::inbox, event_route(topic)});
}

Dispatching::View Dispatching::view() const {
  const std::lock_guard lock{mutex_};
  const Switches switches = switches_.now();
  View view{.paused = switches.paused,
            .paused_stores = {switches.stores.begin(), switches.stores.end()},
            .paused_topics = {switches.topics.begin(), switches.topics.end()}};
  for (const auto& desk : desks_) {
    view.owners.push_back(desk->dispatcher->owner());
    for (RouteStatus& status : desk->routes->status()) {
      view.routes.push_back({desk->kind, std::move(status)});
    }
  }
  return view;
}

}  // namespace twinbox::app
