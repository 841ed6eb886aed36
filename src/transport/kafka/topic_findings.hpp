// What is unsafe about a topic, as its settings tell. Pure: who asked for them is somebody else.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "twinbox/health.hpp"

namespace twinbox::kafka {

/// Empty: nobody could be asked.
struct TopicSettings {
  std::string name;
  int replicas = 0;  ///< of the partition that has the fewest
  std::optional<int> min_insync = {};
  std::optional<bool> unclean_election = {};
  std::optional<std::chrono::milliseconds> retention = {};  ///< negative: for ever
  std::optional<bool> compacted = {};
};

/// `consumed`: a source reads it, and must find what it has not read yet.
std::vector<Finding> findings_of(const TopicSettings& topic, bool consumed);

}  // namespace twinbox::kafka
