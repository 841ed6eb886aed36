// How far each partition has been read, settled, and may be committed. Pure.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace twinbox::kafka {

struct Partition {
  std::string topic;
  std::int32_t number;

  auto operator<=>(const Partition&) const = default;
};

/// Not thread-safe.
class OffsetTracker {
 public:
  /// Offsets come in their order, with gaps where the log has some.
  void add(const Partition& partition, std::int64_t offset) {
    OffsetRange& range = ranges_[partition];
    range.open.insert(offset);
    range.end = offset + 1;
  }
  void settle(const Partition& partition, std::int64_t offset) {
    if (const auto found = ranges_.find(partition); found != ranges_.end()) {
      found->second.open.erase(offset);
    }
  }
  /// Where reading resumes after a crash: every earlier record is settled. Known partitions only.
  [[nodiscard]] std::int64_t position(const Partition& partition) const {
    const OffsetRange& range = ranges_.at(partition);
    return range.open.empty() ? range.end : *range.open.begin();
  }
  [[nodiscard]] bool knows(const Partition& partition) const { return ranges_.contains(partition); }
  /// It belongs to another consumer now.
  void drop(const Partition& partition) { ranges_.erase(partition); }
  /// The largest range that would be read again: from the oldest open record to the end.
  [[nodiscard]] std::int64_t widest_open_range() const {
    std::int64_t widest = 0;
    for (const auto& [partition, range] : ranges_) {
      if (!range.open.empty()) widest = std::max(widest, range.end - *range.open.begin());
    }
    return widest;
  }

 private:
  struct OffsetRange {
    std::set<std::int64_t> open;
    std::int64_t end = 0;
  };
  std::map<Partition, OffsetRange> ranges_;
};

}  // namespace twinbox::kafka
