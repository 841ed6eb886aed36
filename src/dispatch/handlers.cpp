#include "twinbox/error.hpp"
#include "twinbox/handler.hpp"

namespace twinbox {

Guarantee HandlerEntry::guarantee() const noexcept {
  if (std::holds_alternative<TransactionalHandler>(call)) return Guarantee::transactional;
  return options.at_most_once ? Guarantee::at_most_once : Guarantee::at_least_once;
}

namespace {

void check(const std::string& what, const HandlerEntry& entry) {
  if (entry.options.retry) entry.options.retry->check();
  if (entry.options.timeout && *entry.options.timeout <= Duration::zero()) {
    throw std::out_of_range(what + ": timeout must be longer than zero");
  }
  if (entry.options.at_most_once && std::holds_alternative<TransactionalHandler>(entry.call)) {
    throw UsageError(
        what + ": a transactional handler is already effectively once; leave at_most_once out");
  }
}

}  // namespace

Handlers& Handlers::add_topic(const Topic& topic, HandlerEntry entry) {
  const std::string what = "handler for topic '" + topic.str() + "'";
  check(what, entry);
  if (!entry.options.legacy_keys.empty()) {
    throw UsageError(what + ": legacy keys belong to a handler with a key; use on_key");
  }
  if (!by_topic_.emplace(topic.str(), std::move(entry)).second) {
    throw UsageError(
        what + ": registered twice; a topic has one handler, several handlers need keys (on_key)");
  }
  return *this;
}

Handlers& Handlers::add_key(const HandlerKey& key, HandlerEntry entry) {
  const std::string what = "handler key '" + key.str() + "'";
  check(what, entry);
  const auto taken = [&](const HandlerKey& one) {
    return by_key_.contains(one.view()) || legacy_.contains(one.view());
  };
  if (taken(key)) throw UsageError(what + ": registered twice; keys and legacy keys are unique");
  for (const HandlerKey& legacy : entry.options.legacy_keys) {
    if (taken(legacy) || legacy == key) {
      throw UsageError("legacy key '" + legacy.str() + "' of " + what +
                       ": already in use; keys and legacy keys are unique");
    }
  }
  for (const HandlerKey& legacy : entry.options.legacy_keys) {
    if (!legacy_.emplace(legacy.str(), key.str()).second) {
      throw UsageError("legacy key '" + legacy.str() + "' of " + what + ": named twice");
    }
  }
  by_key_.emplace(key.str(), std::move(entry));
  return *this;
}

const HandlerEntry* Handlers::find(const HandlerKey& key, const Topic& topic) const {
  if (key.view().empty()) {
    const auto found = by_topic_.find(topic.view());
    return found == by_topic_.end() ? nullptr : &found->second;
  }
  const auto renamed = legacy_.find(key.view());
  const auto found =
      by_key_.find(renamed == legacy_.end() ? key.view() : std::string_view{renamed->second});
  return found == by_key_.end() ? nullptr : &found->second;
}

std::vector<HandlerKey> Handlers::keys() const {
  std::vector<HandlerKey> all;
  for (const auto& [key, entry] : by_key_) all.emplace_back(key, Trusted{});
  for (const auto& [key, current] : legacy_) all.emplace_back(key, Trusted{});
  return all;
}

void Handlers::make_at_most_once(bool release_claim_on_error) {
  for (auto* entries : {&by_topic_, &by_key_}) {
    for (auto& [name, entry] : *entries) {
      if (entry.guarantee() == Guarantee::transactional) continue;
      entry.options.at_most_once = true;
      entry.options.release_claim_on_error = release_claim_on_error;
    }
  }
}

}  // namespace twinbox
