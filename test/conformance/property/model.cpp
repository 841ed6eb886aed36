#include "conformance/property/model.hpp"

#include <algorithm>

namespace twinbox::test::model {
namespace {

template <class T>
std::optional<std::string> or_null(const T& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>{text};
}

}  // namespace

const DeliveryName* State::holder(const std::string& partition_key,
                                  const std::string& handler) const {
  for (const auto& [delivery, hold] : holds) {
    if (delivery.handler == handler && hold.partition_key == partition_key) return &delivery;
  }
  return nullptr;
}

bool Model::has_work(const Key& key) const {
  return std::any_of(work.begin(), work.end(), [&](const auto& e) { return e.first.key == key; });
}

bool Model::has_outcome(const Key& key, std::optional<int> state) const {
  return std::any_of(outcomes.begin(), outcomes.end(), [&](const auto& e) {
    return e.first.key == key && (!state || e.second.state == *state);
  });
}

int Model::state_of(const Key& key) const {
  if (!facts.contains(key)) return -1;
  if (has_work(key) || has_outcome(key, marked)) return 1;
  if (has_outcome(key, dead)) return 3;
  return has_outcome(key) ? 2 : 0;
}

Fact& Model::touch(const Key& key, const Content& if_new, int version) {
  const auto [place, fresh] = facts.try_emplace(key);
  Fact& fact = place->second;
  if (fresh) {
    fact = {if_new, now, now, 1, version};
  } else {
    ++fact.seen_count;
    fact.last_seen_at = std::max(fact.last_seen_at, now);
  }
  return fact;
}

std::vector<Handler> Model::missing(const Key& key, const std::vector<Handler>& handlers) const {
  std::vector<Handler> result;
  for (const Handler& handler : handlers) {
    std::vector<std::string> names = handler.legacy;
    names.insert(names.end(), {"", handler.key});
    const bool present = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return work.contains({key, name}) || outcomes.contains({key, name});
    });
    if (!present) result.push_back(handler);
  }
  return result;
}

void Model::add_work(const DeliveryName& delivery, Time visible_at, std::optional<Time> expires_at,
                     std::int64_t requeues) {
  Work added;
  added.id = next_unknown_id_++;
  added.visible_at = visible_at;
  added.expires_at = expires_at;
  added.requeues = requeues;
  added.partition_key = facts.at(delivery.key).content.partition_key;
  added.waiting =
      added.partition_key && std::any_of(work.begin(), work.end(), [&](const auto& other) {
        return other.first.handler == delivery.handler &&
               other.second.partition_key == added.partition_key;
      });
  if (added.partition_key) {
    const DeliveryName* holding = holder(*added.partition_key, delivery.handler);
    if (holding != nullptr) added.waiting = *holding != delivery;
  }
  work.emplace(delivery, added);
}

Answer Model::accept(const Arrival& arrival, const std::vector<Handler>& handlers) {
  const bool fresh = !facts.contains(arrival.key);
  Fact& fact = touch(arrival.key, arrival.content, 1);
  const int before = state_of(arrival.key);
  const std::vector<Handler> added = missing(arrival.key, handlers);
  const auto& old_hash = fact.content.hash;
  const bool bare = fact.content_version == 0;
  const bool other_content = !bare && (fact.content.topic != arrival.content.topic ||
                                       fact.content.payload != arrival.content.payload);
  const bool other_hash = old_hash && arrival.content.hash && *old_hash != *arrival.content.hash;
  const bool conflict = !fresh && (other_content || other_hash);
  const bool leased = std::any_of(work.begin(), work.end(), [&](const auto& entry) {
    return entry.first.key == arrival.key && entry.second.held(now);
  });
  const bool first_content = bare && (before != 2 || !added.empty());
  const bool replaced =
      !fresh && (first_content || (!bare && arrival.replaces && before != 2 && !leased));
  if (replaced) {
    Content content = arrival.content;
    if (!bare) content.partition_key = fact.content.partition_key;
    fact.content = content;
    ++fact.content_version;
  }
  const Time visible_at = std::max(fact.content.due_at.value_or(now), now);
  for (auto& [delivery, row] : work) {
    if (delivery.key != arrival.key || !replaced) continue;
    row.expires_at = arrival.content.expires_at;
    if (row.attempts == 0) {
      row.visible_at = visible_at;
    } else if (arrival.content.due_at) {
      row.visible_at = std::max(row.visible_at, *arrival.content.due_at);
    }
  }
  for (const Handler& handler : added) {
    add_work({arrival.key, handler.key}, visible_at, fact.content.expires_at, 0);
  }
  return {added.empty() ? before : 0, conflict};
}

std::pair<bool, bool> Model::observe(const Key& key, const std::optional<std::string>& hash) {
  Content content;
  content.hash = hash;
  Fact& fact = touch(key, content, 0);
  const bool conflict = hash && fact.content.hash && *fact.content.hash != *hash;
  if (!fact.content.hash) fact.content.hash = hash;
  return {state_of(key) == 2, conflict};
}

bool Model::mark_processing(const Key& key) {
  if (state_of(key) != 0) return false;
  outcomes[{key, ""}] = {.state = marked, .finished_at = now};
  return true;
}

/// Lets the oldest of a key go, unless the key is held.
void Model::promote(const std::string& partition_key, const std::string& handler) {
  if (holder(partition_key, handler) != nullptr) return;
  Work* head = nullptr;
  for (auto& [delivery, row] : work) {
    if (delivery.handler != handler || row.partition_key != partition_key) continue;
    if (head == nullptr || row.id < head->id) head = &row;
  }
  if (head != nullptr) head->waiting = false;
}

/// What held its key holds it no more.
void Model::release_key(const DeliveryName& delivery) {
  const auto held = holds.extract(delivery);
  if (!held.empty()) promote(held.mapped().partition_key, delivery.handler);
}

/// Work becomes an outcome; what the outcome does not say is taken from the work. Who acks leaves
/// no error behind: the timeline keeps them.
void Model::finish(Position place, Outcome outcome) {
  const auto [delivery, row] = *place;
  outcome.delivery_id = row.id;
  outcome.finished_at = now;
  outcome.attempts += row.attempts;
  outcome.expiries = row.expiries;
  outcome.requeues = row.requeues;
  const bool acked = outcome.state == done && outcome.finished_by;
  if (!outcome.last_error && !acked) outcome.last_error = row.last_error;
  work.erase(place);
  outcomes.emplace(delivery, outcome);
  const bool holds_on = outcome.state == dead && hold_keys &&
                        (outcome.reason == "failed" || outcome.reason == "crash_loop");
  if (!row.partition_key) return;
  if (holds_on) {
    holds[delivery] = {*row.partition_key};
  } else {
    release_key(delivery);
  }
  promote(*row.partition_key, delivery.handler);
}

bool Model::mark_processed(const Key& key) {
  const int before = state_of(key);
  if (before == -1 || before == 2) return false;
  for (auto& [delivery, outcome] : outcomes) {
    if (delivery.key != key || (outcome.state != dead && outcome.state != marked)) continue;
    outcome.state = done;
    outcome.finished_at = now;
    outcome.reason = "marked processed";
    release_key(delivery);
  }
  for (auto place = work.begin(); place != work.end();) {
    const auto here = place++;
    if (here->first.key == key) finish(here, {.state = done, .reason = "marked processed"});
  }
  if (before == 0) {
    outcomes[{key, ""}] = {.state = done, .finished_at = now, .reason = "marked processed"};
  }
  return true;
}

bool Model::mark_dead(const Key& key, const std::string& error) {
  const int before = state_of(key);
  if (before != 0 && before != 1) return false;
  for (auto& [delivery, outcome] : outcomes) {
    if (delivery.key != key || outcome.state != marked) continue;
    outcome.state = dead;
    outcome.finished_at = now;
    outcome.reason = "marked dead";
    outcome.last_error = or_null(error);
  }
  for (auto place = work.begin(); place != work.end();) {
    const auto here = place++;
    if (here->first.key != key) continue;
    finish(here, {.state = dead, .reason = "marked dead", .last_error = or_null(error)});
  }
  if (before == 0) {
    outcomes[{key, ""}] = {
        .state = dead, .finished_at = now, .reason = "marked dead", .last_error = or_null(error)};
  }
  return true;
}

bool Model::try_claim(const Key& key, const std::string& topic, const std::string& handler) {
  Content content;
  content.topic = topic;
  touch(key, content, 0);
  if (work.contains({key, handler}) || outcomes.contains({key, handler})) return false;
  outcomes[{key, handler}] = {.state = marked, .finished_at = now, .reason = topic};
  return true;
}

bool Model::release_claim(const Key& key, const std::string& handler) {
  const auto found = outcomes.find({key, handler});
  if (found == outcomes.end() || found->second.state != marked) return false;
  outcomes.erase(found);
  return true;
}

std::size_t Model::requeue(const std::vector<DeliveryName>& deliveries, Time delay) {
  std::size_t changed = 0;
  for (const DeliveryName& delivery : deliveries) {
    const auto found = outcomes.find(delivery);
    if (found == outcomes.end() || found->second.state != dead) continue;
    const Content& content = facts.at(delivery.key).content;
    if (!content.payload) continue;
    const std::int64_t requeues = found->second.requeues + 1;
    outcomes.erase(found);
    const bool alive = content.expires_at && *content.expires_at > now;
    add_work(delivery, now + delay, alive ? content.expires_at : std::nullopt, requeues);
    if (const auto held = holds.find(delivery); held != holds.end()) held->second.requeued = true;
    ++changed;
  }
  return changed;
}

std::size_t Model::discard(const std::vector<DeliveryName>& deliveries, const std::string& reason) {
  std::size_t changed = 0;
  for (const DeliveryName& delivery : deliveries) {
    if (const auto open = work.find(delivery); open != work.end()) {
      finish(open, {.state = discarded, .reason = reason});
      ++changed;
    } else if (const auto found = outcomes.find(delivery);
               found != outcomes.end() && found->second.state == dead) {
      found->second.state = discarded;
      found->second.finished_at = now;
      found->second.reason = reason;
      release_key(delivery);
      ++changed;
    }
  }
  return changed;
}

bool Model::edit(const Key& key, const std::string& payload) {
  const auto found = facts.find(key);
  if (found == facts.end() || !found->second.content.payload) return false;
  for (const auto& [delivery, row] : work) {
    if (delivery.key == key && row.held(now)) return false;
  }
  if (!has_work(key) && !has_outcome(key, dead)) return false;
  found->second.content.payload = payload;
  found->second.content.hash.reset();
  ++found->second.content_version;
  return true;
}

std::size_t Model::prune(const Pruning& pruning, const std::map<Key, std::int64_t>& numbers) {
  const Time youngest = now - pruning.retention;
  std::int64_t end = INT64_MAX;
  for (const auto& [key, fact] : facts) {
    // Only the walk over dead and seen messages has an end. A message from the future (the clock
    // has stepped back) is none.
    if (!pruning.dead && !pruning.seen) break;
    const bool young = fact.created_at > youngest && fact.created_at <= now;
    if (young) end = std::min(end, numbers.at(key));
  }
  std::vector<Key> old;
  for (const auto& [key, fact] : facts) {
    const bool only_seen = state_of(key) == 0;
    bool prunable = numbers.at(key) < end && !has_work(key) &&
                    (!only_seen || (pruning.seen && fact.last_seen_at <= youngest));
    for (const auto& [delivery, outcome] : outcomes) {
      if (delivery.key != key) continue;
      // A mark without a reason is mark_processing's: its caller is at work, however long.
      const bool processing = outcome.state == marked && !outcome.reason;
      prunable = prunable && outcome.finished_at <= youngest && !processing &&
                 (outcome.state != dead || (pruning.dead && !holds.contains(delivery)));
    }
    if (prunable) old.push_back(key);
  }
  for (const Key& key : old) {
    facts.erase(key);
    std::erase_if(outcomes, [&](const auto& entry) { return entry.first.key == key; });
    std::erase_if(failures, [&](const auto& line) { return line.delivery.key == key; });
  }
  return old.size();
}

}  // namespace twinbox::test::model
