// A scope in which every call that blocks can be cancelled.
#pragma once

#include <stop_token>

namespace twinbox {

/// While it lives, every call of this thread to a store ends with DatabaseError `cancelled` once a
/// stop is requested: a call that waits for a connection, a lock, a busy file or an answer ends
/// there, and a new one does not begin. A commit that was sent is never cut short. Other threads
/// are not affected, even where their calls share a transaction with this one. A call in a scope
/// is not repeated for DatabaseOptions::retry_limit while its server is away.
class StopScope {
 public:
  explicit StopScope(std::stop_token stop) noexcept;
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// The innermost one's; without any, one that never stops.
  [[nodiscard]] static const std::stop_token& token() noexcept;

 private:
  const std::stop_token stop_;
  const std::stop_token* const outer_;
};

}  // namespace twinbox
