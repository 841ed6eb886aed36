// Groups dead letters by their error, in bounded memory.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "twinbox/operations.hpp"

namespace twinbox {

/// Counts similar dead letters. Keeps ten times as many groups as requested; beyond that, the
/// smaller half is summed up, so that a large group is always among the largest.
class DeadGroupTable {
 public:
  explicit DeadGroupTable(std::size_t wanted) : wanted_(wanted) {}

  void add(std::string_view topic, std::string_view handler, std::string_view error, Instant at);
  /// The wanted number, by count.
  [[nodiscard]] DeadGroups largest();

 private:
  DeadGroup& find(std::string_view topic, std::string_view handler, std::string_view error,
                  Instant at);
  void drop_small();

  const std::size_t wanted_;
  std::map<std::tuple<std::string, std::string, std::string>, DeadGroup> groups_;
  std::unordered_map<std::string, DeadGroup*> known_;  // by the exact text of a row
  std::string words_;
  std::int64_t other_ = 0;
};

}  // namespace twinbox
