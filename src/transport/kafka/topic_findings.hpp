// Unsafe settings of a topic. Pure: the caller reads the settings.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "twinbox/health.hpp"

namespace twinbox::kafka {

/// Empty: the cluster could not be asked.
struct TopicSettings {
  std::string name;
  int replicas = 0;  ///< of the partition that has the fewest
  std::optional<int> min_insync = {};
  std::optional<bool> unclean_election = {};
  std::optional<std::chrono::milliseconds> retention = {};  ///< negative: forever
  std::optional<bool> compacted = {};
};

/// `consumed`: a source reads it, and must find unread records.
std::vector<Finding> findings_of(const TopicSettings& topic, bool consumed);

}  // namespace twinbox::kafka
