// Calls that may take any time.
#pragma once

#include <utility>

namespace twinbox {

/// While it lives, DatabaseOptions::answer_timeout does not apply to the calls that this thread
/// begins: the duration of a migration or a prune depends on the tables.
class WithoutAnswerTimeout {
 public:
  WithoutAnswerTimeout() noexcept : outer_(std::exchange(active_, true)) {}
  ~WithoutAnswerTimeout() { active_ = outer_; }
  WithoutAnswerTimeout(const WithoutAnswerTimeout&) = delete;
  WithoutAnswerTimeout& operator=(const WithoutAnswerTimeout&) = delete;

  [[nodiscard]] static bool active() noexcept { return active_; }

 private:
  static inline thread_local bool active_ = false;
  const bool outer_;
};

}  // namespace twinbox
