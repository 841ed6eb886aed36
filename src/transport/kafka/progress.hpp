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
class Progress {
 public:
  /// Offsets come in their order, with gaps where the log has some.
  void add(const Partition& partition, std::int64_t offset) {
    Span& span = spans_[partition];
    span.open.insert(offset);
    span.end = offset + 1;
  }
  void settle(const Partition& partition, std::int64_t offset) {
    if (const auto found = spans_.find(partition); found != spans_.end()) {
      found->second.open.erase(offset);
    }
  }
  /// Where reading begins again after a crash: nothing before it is open. Known partitions only.
  [[nodiscard]] std::int64_t position(const Partition& partition) const {
    const Span& span = spans_.at(partition);
    return span.open.empty() ? span.end : *span.open.begin();
  }
  [[nodiscard]] bool knows(const Partition& partition) const { return spans_.contains(partition); }
  /// It belongs to somebody else now.
  void drop(const Partition& partition) { spans_.erase(partition); }
  /// The widest stretch that would be read again: from what is still open to the end.
  [[nodiscard]] std::int64_t held() const {
    std::int64_t widest = 0;
    for (const auto& [partition, span] : spans_) {
      if (!span.open.empty()) widest = std::max(widest, span.end - *span.open.begin());
    }
    return widest;
  }

 private:
  struct Span {
    std::set<std::int64_t> open;
    std::int64_t end = 0;
  };
  std::map<Partition, Span> spans_;
};

}  // namespace twinbox::kafka
