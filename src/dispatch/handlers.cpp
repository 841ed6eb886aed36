#include <algorithm>
#include <set>

#include "queue/box.hpp"
#include "twinbox/error.hpp"
#include "twinbox/handler.hpp"

namespace twinbox {
namespace {

constexpr std::size_t largest_batch = 100'000;
constexpr Duration longest_timeout = std::chrono::years{10};

}  // namespace

Guarantee HandlerEntry::guarantee() const noexcept {
  if (std::holds_alternative<TransactionalHandler>(call)) return Guarantee::transactional;
  return options.at_most_once ? Guarantee::at_most_once : Guarantee::at_least_once;
}

void HandlerEntry::check(const std::string& what) const {
  if (!std::visit([](const auto& handler) { return static_cast<bool>(handler); }, call)) {
    throw UsageError(what + ": it is an empty function, and every call of it would fail");
  }
  if (options.retry) options.retry->check();
  if (options.timeout &&
      (*options.timeout <= Duration::zero() || *options.timeout > longest_timeout)) {
    throw std::out_of_range(what +
                            ": timeout must be longer than zero and at most ten years; leave it "
                            "out for no timeout");
  }
  const bool batch = std::holds_alternative<BatchHandler>(call);
  if (batch && (options.max_batch < 1 || options.max_batch > largest_batch)) {
    throw std::out_of_range(what + ": max_batch is " + std::to_string(options.max_batch) +
                            ", 1 to " + std::to_string(largest_batch) + " are allowed");
  }
  if (batch && options.at_most_once) {
    throw UsageError(what +
                     ": a batch cannot be at most once, because one crash would leave all of it "
                     "marked; leave at_most_once out, or handle one message at a time");
  }
  if (options.at_most_once && std::holds_alternative<TransactionalHandler>(call)) {
    throw UsageError(
        what + ": a transactional handler is already effectively once; leave at_most_once out");
  }
}

Handlers& Handlers::add(const Topic& topic, HandlerEntry entry) {
  const std::string what = "handler for topic '" + topic.str() + "'";
  entry.check(what);
  if (!entry.options.legacy_keys.empty()) {
    throw UsageError(what + ": legacy keys belong to a handler with a key; use on_key");
  }
  if (!by_topic_.emplace(topic.str(), std::move(entry)).second) {
    throw UsageError(
        what + ": registered twice; a topic has one handler, several handlers need keys (on_key)");
  }
  return *this;
}

Handlers& Handlers::add(const TopicPattern& pattern, HandlerEntry entry) {
  const std::string what = "handler for topics like '" + pattern.str() + "'";
  entry.check(what);
  if (!entry.options.legacy_keys.empty()) {
    throw UsageError(what + ": legacy keys belong to a handler with a key; use on_key");
  }
  const auto same = [&](const auto& one) { return one.first == pattern; };
  if (std::ranges::any_of(by_pattern_, same)) {
    throw UsageError(what + ": registered twice; the second would never be called");
  }
  by_pattern_.emplace_back(pattern, std::move(entry));
  return *this;
}

Handlers& Handlers::add(const HandlerKey& key, HandlerEntry entry) {
  const std::string what = "handler key '" + key.str() + "'";
  entry.check(what);
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
    if (found != by_topic_.end()) return &found->second;
    for (const auto& [pattern, entry] : by_pattern_) {
      if (pattern.matches(topic.view())) return &entry;
    }
    return nullptr;
  }
  const auto renamed = legacy_.find(key.view());
  const auto found =
      by_key_.find(renamed == legacy_.end() ? key.view() : std::string_view{renamed->second});
  return found == by_key_.end() ? nullptr : &found->second;
}

std::vector<HandlerKey> Handlers::keys() const {
  std::vector<HandlerKey> all;
  for (const auto& [key, entry] : by_key_) all.emplace_back(key, Unchecked{});
  for (const auto& [key, current] : legacy_) all.emplace_back(key, Unchecked{});
  return all;
}

std::vector<std::string> Handlers::topics() const {
  std::vector<std::string> all;
  for (const auto& [topic, entry] : by_topic_) all.push_back(topic);
  return all;
}

std::vector<std::string> Handlers::patterns() const {
  std::vector<std::string> all;
  for (const auto& [pattern, entry] : by_pattern_) all.push_back(pattern.str());
  return all;
}

template <class Self, class F>
void Handlers::for_each(Self& self, F&& call) {
  for (auto& [topic, entry] : self.by_topic_) call(topic, entry);
  for (auto& [pattern, entry] : self.by_pattern_) call(pattern.str(), entry);
  for (auto& [key, entry] : self.by_key_) call(key, entry);
}

bool Handlers::any_transactional() const {
  bool any = false;
  for_each(*this, [&](const std::string&, const HandlerEntry& entry) {
    any = any || entry.guarantee() == Guarantee::transactional;
  });
  return any;
}

std::size_t Handlers::largest_batch() const {
  std::size_t largest = 1;
  for_each(*this, [&](const std::string&, const HandlerEntry& entry) {
    if (std::holds_alternative<BatchHandler>(entry.call))
      largest = std::max(largest, entry.options.max_batch);
  });
  return largest;
}

void Handlers::make_at_most_once(bool release_claim_on_error) {
  for_each(*this, [](const std::string& name, const HandlerEntry& entry) {
    if (!std::holds_alternative<BatchHandler>(entry.call)) return;
    throw UsageError("handler of '" + name +
                     "': a batch handler cannot be made at-most-once; register it as one that "
                     "handles one message at a time");
  });
  for_each(*this, [&](const std::string&, HandlerEntry& entry) {
    if (entry.guarantee() == Guarantee::transactional) return;
    entry.options.at_most_once = true;
    entry.options.release_claim_on_error = release_claim_on_error;
  });
}

std::vector<HandlerKey> unclaimed_keys(WorkQueue& queue, const Handlers& handlers) {
  constexpr std::int64_t looked_at = 10'000;
  const std::vector<HandlerKey> claimed = handlers.keys();
  const Box& box = box_of(queue);
  std::set<HandlerKey> unclaimed =
      box_of(queue).in_own_transaction(Access::read, Scope::statement, [&](Session& s) {
        std::set<HandlerKey> found;
        box.run(s, box.sql().open_keys, {{"limit", looked_at}},
                [&](const Row& row) { found.emplace(std::string{row.text(0)}, Unchecked{}); });
        return found;
      });
  unclaimed.erase(HandlerKey::by_topic());
  for (const HandlerKey& key : claimed) unclaimed.erase(key);
  for (const HandlerKey& key : unclaimed) {
    box.log(LogLevel::warning, "unclaimed_key", {{"handler", key.view()}});
  }
  return {unclaimed.begin(), unclaimed.end()};
}

}  // namespace twinbox
