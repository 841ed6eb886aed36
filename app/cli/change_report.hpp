// The number of changes per box, made or planned.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/verb.hpp"

namespace twinbox::cli {

class ChangeCounts {
 public:
  void add(const std::string& box, std::int64_t count);
  [[nodiscard]] std::int64_t total() const;
  [[nodiscard]] std::int64_t of(const std::string& box) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::int64_t>>& boxes() const noexcept {
    return boxes_;
  }
  /// `12 deliveries (outbox 10, inbox 2)`.
  [[nodiscard]] std::string text(const std::string& one, const std::string& many) const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> boxes_;
};

/// `12 deliveries requeued`, or JSON.
void report(const Screen& screen, const CommonOptions& common, const ChangeCounts& tally,
            const std::string& done, const std::string& one, const std::string& many,
            const std::string& operation = {});

/// The operator: --actor, or the user's name.
std::string actor_of(const CommonOptions& common);

}  // namespace twinbox::cli
