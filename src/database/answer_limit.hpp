// Calls that may take as long as they need.
#pragma once

#include <utility>

namespace twinbox {

/// While it lives, DatabaseOptions::answer_limit does not hold for the calls that this thread
/// begins: how long a migration or a prune lasts depends on the tables.
class WithoutAnswerLimit {
 public:
  WithoutAnswerLimit() noexcept : outer_(std::exchange(active_, true)) {}
  ~WithoutAnswerLimit() { active_ = outer_; }
  WithoutAnswerLimit(const WithoutAnswerLimit&) = delete;
  WithoutAnswerLimit& operator=(const WithoutAnswerLimit&) = delete;

  [[nodiscard]] static bool active() noexcept { return active_; }

 private:
  static inline thread_local bool active_ = false;
  const bool outer_;
};

}  // namespace twinbox
