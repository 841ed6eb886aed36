#include "queue/group_table.hpp"

#include <algorithm>

namespace twinbox {
namespace {

constexpr std::size_t most_known = 1000;
constexpr std::size_t kept_per_wanted = 10;

}  // namespace

void DeadGroupTable::add(std::string_view topic, std::string_view handler, std::string_view error,
                         Instant at) {
  words_.assign(topic).append(1, '\0').append(handler).append(1, '\0').append(error);
  const auto known = known_.find(words_);
  DeadGroup& group = known == known_.end() ? find(topic, handler, error, at) : *known->second;
  ++group.count;
  group.first_at = std::min(group.first_at, at);
  group.last_at = std::max(group.last_at, at);
}

DeadGroup& DeadGroupTable::find(std::string_view topic, std::string_view handler,
                                std::string_view error, Instant at) {
  if (groups_.size() >= kept_per_wanted * wanted_) drop_small();
  if (known_.size() >= most_known) known_.clear();
  const std::string name{topic};
  const std::string key{handler};
  const std::string normal = normalise_error(error);
  const auto inserted = groups_.try_emplace(
      {name, key, normal}, DeadGroup{name, HandlerKey{key, Unchecked{}}, normal, 0, at, at});
  known_.emplace(words_, &inserted.first->second);
  return inserted.first->second;
}

void DeadGroupTable::drop_small() {
  std::vector<std::int64_t> counts;
  for (const auto& [key, group] : groups_) counts.push_back(group.count);
  const auto middle = counts.begin() + std::ssize(counts) / 2;
  std::nth_element(counts.begin(), middle, counts.end());
  std::size_t room = counts.size() / 2;
  for (auto at = groups_.begin(); at != groups_.end();) {
    // Of the groups of median size, only this many are removed.
    if (at->second.count > *middle || room == 0) {
      ++at;
      continue;
    }
    --room;
    other_ += at->second.count;
    at = groups_.erase(at);
  }
  known_.clear();
}

DeadGroups DeadGroupTable::largest() {
  std::vector<DeadGroup> sorted;
  for (auto& [key, group] : groups_) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const DeadGroup& a, const DeadGroup& b) { return a.count > b.count; });
  for (std::size_t i = wanted_; i < sorted.size(); ++i) other_ += sorted[i].count;
  if (sorted.size() > wanted_)
    sorted.erase(sorted.begin() + static_cast<std::ptrdiff_t>(wanted_), sorted.end());
  return {std::move(sorted), other_};
}

}  // namespace twinbox
