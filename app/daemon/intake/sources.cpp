#include "daemon/intake/sources.hpp"

#include <stdexcept>

#include "daemon/dispatch/brokers.hpp"

namespace twinbox::app {
namespace {

/// Opens the inbox at the first delivery: a store that is unreachable now may be available by then.
AcceptCall accept_into(const Stores& stores, const std::string& name) {
  return [&stores, name](std::span<const Arrival> arrivals) {
    Store* store = stores.find(name, BoxKind::inbox);
    if (store == nullptr) throw std::invalid_argument("no store serves an inbox; configure one");
    return store->inbox().accept(arrivals);
  };
}

}  // namespace

AcceptCall refuse_sources(AcceptCall accept, SourceNames reserved) {
  return [accept = std::move(accept),
          reserved = std::move(reserved)](std::span<const Arrival> arrivals) {
    for (const Arrival& arrival : arrivals) {
      if (!reserved.contains(arrival.source.view())) continue;
      throw RequestError(
          403, "the source '" + arrival.source.str() +
                   "' belongs to a webhook endpoint or another broker; use another source");
    }
    return accept(arrivals);
  };
}

Sources::Sources(const Stores& stores, Environment environment)
    : stores_(stores), environment_(std::move(environment)) {}

Sources::~Sources() { stop(); }

void Sources::set(const Config& config) {
  const std::lock_guard lock{mutex_};
  std::map<std::string, std::unique_ptr<Running>> made;
  std::map<std::string, std::unique_ptr<Running>*> kept;
  for (const SourceConfig& source : config.sources) {
    const SourceNames reserved = reserved_for(source, config);
    const auto former = running_.find(source.name);
    if (former != running_.end() && former->second->config == source &&
        former->second->reserved == reserved) {
      kept.emplace(source.name, &former->second);
      continue;
    }
    auto next = std::make_unique<Running>();
    next->config = source;
    next->reserved = reserved;
    try {
      next->source = make_broker_source(
          source, refuse_sources(accept_into(stores_, source.store), reserved), environment_);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("source." + source.name + ": " + error.what());
    }
    made.emplace(source.name, std::move(next));
  }
  for (auto& [name, former] : kept) made.emplace(name, std::move(*former));
  std::swap(running_, made);
  for (auto& [name, former] : made) {
    if (former) former->thread.request_stop();
  }
  made.clear();  // waits for them
  for (auto& [name, one] : running_) {
    if (one->thread.joinable()) continue;
    one->thread = std::jthread{
        [source = one->source.get()](std::stop_token stop) { source->run(std::move(stop)); }};
  }
}

void Sources::stop() {
  const std::lock_guard lock{mutex_};
  for (auto& [name, one] : running_) one->thread.request_stop();
  running_.clear();
}

std::map<std::string, SourceStatus> Sources::status() const {
  const std::lock_guard lock{mutex_};
  std::map<std::string, SourceStatus> all;
  for (const auto& [name, one] : running_) all.emplace(name, one->source->status());
  return all;
}

}  // namespace twinbox::app
