// The life of a delivery in the model: claimed, settled, swept.
#include <algorithm>
#include <sstream>

#include "conformance/property/model.hpp"

namespace twinbox::test::model {
namespace {

constexpr Time second = 1'000'000;
constexpr Time first_delay = 2 * second;
constexpr Time max_delay = 60 * second;

std::optional<std::string> or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>{text};
}

Time backoff(std::int64_t failures_before) {
  Time delay = first_delay;
  for (std::int64_t i = 0; i < failures_before && delay < max_delay; ++i) delay *= 2;
  return std::min(delay, max_delay);
}

struct Candidate {
  Time visible_at;
  std::int64_t id;
  std::int64_t expiries;
  auto operator<=>(const Candidate&) const = default;
};

/// Calls `use` with the `limit` oldest, once for every choice among those that are equally old.
template <class Use>
void for_each_choice(const std::vector<Candidate>& candidates, std::size_t limit, Use use) {
  const std::size_t count = std::min(limit, candidates.size());
  std::size_t first = count, last = count;
  if (count > 0) {
    const Time border = candidates[count - 1].visible_at;
    while (first > 0 && candidates[first - 1].visible_at == border) --first;
    while (last < candidates.size() && candidates[last].visible_at == border) ++last;
  }
  std::vector<bool> chosen(last - first, false);
  std::fill_n(chosen.begin(), count - first, true);
  do {
    std::vector<Candidate> picked(candidates.begin(),
                                  candidates.begin() + static_cast<std::ptrdiff_t>(first));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i]) picked.push_back(candidates[first + i]);
    }
    use(std::move(picked));
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
}

}  // namespace

Model::Position Model::find(std::int64_t id) {
  return std::find_if(work.begin(), work.end(), [&](const auto& e) { return e.second.id == id; });
}

Model::Position Model::find(const Held& held) {
  const auto place = find(held.id);
  if (place == work.end() || place->second.owner != held.owner) return work.end();
  if (held.epoch && place->second.epoch != *held.epoch) return work.end();
  return place;
}

bool Model::ready(const Work& row) const {
  return !row.waiting && row.visible_at <= now && !row.held(now) &&
         (!row.expires_at || *row.expires_at > now);
}

Claimed Model::lease(Position place, const std::string& owner, Time lease) {
  Work& row = place->second;
  if (row.lease_until) ++row.expiries;
  row.owner = owner;
  row.lease_until = now + lease;
  return {row.id, ++row.epoch};
}

std::vector<Model::World> Model::claim(const std::string& owner, Time lease, std::size_t limit,
                                       std::optional<Time> visible_from) const {
  std::vector<World> worlds;
  claim_into(owner, lease, limit, visible_from, worlds);
  return worlds;
}

void Model::claim_into(const std::string& owner, Time lease_length, std::size_t limit,
                       std::optional<Time> visible_from, std::vector<World>& worlds) const {
  std::vector<Candidate> candidates;
  for (const auto& [delivery, row] : work) {
    if (!ready(row) || (visible_from && row.visible_at < *visible_from)) continue;
    candidates.push_back({row.visible_at, row.id, row.expiries + (row.lease_until ? 1 : 0)});
  }
  std::sort(candidates.begin(), candidates.end());
  const auto follow = [&](std::vector<Candidate> picked) {
    const bool alone = !picked.empty() && picked.front().expiries > 0;
    if (alone) picked.resize(1);
    std::erase_if(picked, [&](const Candidate& one) { return !alone && one.expiries > 0; });
    World world{*this, {}};
    for (const Candidate& one : picked) {
      world.answer.push_back(world.model.lease(world.model.find(one.id), owner, lease_length));
    }
    if (alone && world.model.end_crash_loop(owner, world.answer.front())) {
      world.model.claim_into(owner, lease_length, limit, visible_from, worlds);
    } else {
      worlds.push_back(std::move(world));
    }
  };
  for_each_choice(candidates, limit, follow);
  // A store may also pass over those that go alone before it counts, and fill the batch up.
  if (candidates.empty() || candidates.front().expiries > 0) return;
  std::erase_if(candidates, [](const Candidate& one) { return one.expiries > 0; });
  for_each_choice(candidates, limit, follow);
}

std::vector<Claimed> Model::claim_message(const Key& key, const std::string& owner,
                                          Time lease_length) {
  std::vector<Claimed> answer;
  for (auto place = work.begin(); place != work.end();) {
    const auto here = place++;
    if (here->first.key != key || !ready(here->second)) continue;
    const Claimed claimed = lease(here, owner, lease_length);
    if (!end_crash_loop(owner, claimed)) answer.push_back(claimed);
  }
  return answer;
}

bool Model::end_crash_loop(const std::string& owner, const Claimed& claimed) {
  const std::int64_t deaths = find(claimed.id)->second.expiries;
  if (max_expiries == 0 || deaths < max_expiries) return false;
  const std::string error = "the worker that held it died " + std::to_string(deaths) + " times";
  fail({{owner, claimed.id, claimed.epoch}}, error, false, "crash_loop");
  return true;
}

std::vector<std::int64_t> Model::renew(const std::vector<Held>& held, Time lease_length) {
  std::set<std::int64_t> answer;
  for (const Held& one : held) {
    const auto place = find(one);
    if (place == work.end() || !place->second.held(now)) continue;
    auto& until = place->second.lease_until;
    until = std::max(*until, now + lease_length);
    answer.insert(one.id);
  }
  return {answer.begin(), answer.end()};
}

std::size_t Model::ack(const std::vector<Held>& held) {
  std::size_t changed = 0;
  for (const Held& one : held) {
    const auto place = find(one);
    if (place == work.end()) continue;
    finish(place, {.state = done, .finished_by = one.owner});
    ++changed;
  }
  return changed;
}

std::size_t Model::abandon(const std::vector<Held>& held, const std::string& error,
                           std::optional<Time> delay) {
  std::size_t changed = 0;
  for (const Held& one : held) {
    const auto place = find(one);
    if (place == work.end()) continue;
    auto& [delivery, row] = *place;
    const Time again = now + delay.value_or(backoff(row.attempts));
    row.visible_at = std::max(again, facts.at(delivery.key).content.due_at.value_or(again));
    ++row.attempts;
    row.owner.reset();
    row.lease_until.reset();
    row.last_error = or_null(error);
    failures.insert({delivery, row.id, now, one.owner, or_null(error), row.attempts});
    ++changed;
  }
  return changed;
}

std::size_t Model::fail(const std::vector<Held>& held, const std::string& error, bool counts,
                        const std::string& reason) {
  std::size_t changed = 0;
  for (const Held& one : held) {
    const auto place = find(one);
    if (place == work.end()) continue;
    const auto& [delivery, row] = *place;
    if (counts) {
      const auto text = error.empty() ? row.last_error : or_null(error);
      failures.insert({delivery, row.id, now, one.owner, text, row.attempts + 1});
    }
    finish(place, {.state = dead,
                   .finished_by = one.owner,
                   .reason = reason,
                   .last_error = or_null(error),
                   .attempts = counts ? 1 : 0});
    ++changed;
  }
  return changed;
}

std::size_t Model::release(const std::vector<Held>& held, std::optional<Time> until) {
  std::size_t changed = 0;
  for (const Held& one : held) {
    const auto place = find(one);
    if (place == work.end()) continue;
    Work& row = place->second;
    row.owner.reset();
    row.lease_until.reset();
    row.visible_at = until.value_or(std::min(row.visible_at, now));
    ++changed;
  }
  return changed;
}

std::size_t Model::release_by_operator(const std::vector<std::int64_t>& ids,
                                       std::optional<Time> until) {
  std::size_t changed = 0;
  for (const std::int64_t id : std::set<std::int64_t>(ids.begin(), ids.end())) {
    const auto place = find(id);
    if (place == work.end() || place->second.held(now)) continue;
    Work& row = place->second;
    row.owner.reset();
    row.lease_until.reset();
    row.visible_at = until.value_or(std::min(row.visible_at, now));
    ++changed;
  }
  return changed;
}

std::optional<std::int64_t> Model::work_of(const std::string& id) const {
  std::int64_t found = 0;
  int sources = 0;
  for (const auto& [key, fact] : facts) {
    if (key.id != id) continue;
    ++sources;
    if (const auto place = work.find({key, ""}); place != work.end()) found = place->second.id;
  }
  if (sources > 1) return std::nullopt;
  return found;
}

std::size_t Model::reap() {
  std::size_t changed = 0;
  for (auto& [delivery, row] : work) {
    if (!row.lease_until || *row.lease_until > now) continue;
    row.owner.reset();
    row.lease_until.reset();
    ++row.expiries;
    ++changed;
  }
  return changed;
}

std::size_t Model::expire() {
  std::size_t changed = 0;
  for (auto place = work.begin(); place != work.end();) {
    const auto here = place++;
    const Work& row = here->second;
    if (!row.expires_at || *row.expires_at > now || row.held(now)) continue;
    finish(here, {.state = dead, .reason = "expired"});
    ++changed;
  }
  return changed;
}

std::string Model::learn_ids(const State& found) {
  std::ostringstream wrong;
  const std::int64_t highest_before = highest_id_;
  const auto learn = [&](std::int64_t& mine, std::int64_t theirs) {
    if (mine < unknown_ids) return;
    if (theirs <= highest_before) wrong << "work id " << theirs << " is used twice\n";
    mine = theirs;
    highest_id_ = std::max(highest_id_, theirs);
  };
  std::vector<std::pair<std::int64_t, DeliveryName>> order;
  for (const auto& [delivery, row] : work) order.emplace_back(row.id, delivery);
  std::sort(order.begin(), order.end());
  std::map<std::pair<std::string, std::string>, std::int64_t> last_of_key;
  for (const auto& [id, delivery] : order) {
    const auto theirs = found.work.find(delivery);
    if (theirs == found.work.end()) continue;
    Work& mine = work.at(delivery);
    learn(mine.id, theirs->second.id);
    if (!mine.partition_key) continue;
    auto& last = last_of_key[{*mine.partition_key, delivery.handler}];
    if (mine.id <= last) wrong << "work " << mine.id << " is out of its key's order\n";
    last = mine.id;
  }
  for (auto& [delivery, outcome] : outcomes) {
    const auto theirs = found.outcomes.find(delivery);
    if (!outcome.delivery_id || theirs == found.outcomes.end() || !theirs->second.delivery_id)
      continue;
    learn(*outcome.delivery_id, *theirs->second.delivery_id);
  }
  return wrong.str();
}

}  // namespace twinbox::test::model
