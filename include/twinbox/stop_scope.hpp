// A scope in which every call that blocks can be cancelled.
#pragma once

#include <optional>
#include <stop_token>

namespace twinbox {

/// While it lives, every call of this thread to a store ends with DatabaseError `cancelled` once a
/// stop is requested: a call that waits for a connection, a lock, a busy file or an answer ends
/// there, and a new one does not begin. A commit that was sent is never cut short. Other threads
/// are not affected, even where their calls share a transaction with this one. A call in a scope
/// is not repeated for DatabaseOptions::retry_limit while its server is away, unless the scope asks
/// for it.
class StopScope {
 public:
  /// What becomes of a call that finds no server, or one that takes no writes.
  enum class WhileAway {
    fail,    ///< soon: for loops, which repeat by themselves
    repeat,  ///< as outside of a scope
  };

  explicit StopScope(std::stop_token stop, WhileAway away = WhileAway::fail) noexcept;
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// The innermost one's; without any, one that never stops.
  [[nodiscard]] static const std::stop_token& token() noexcept;
  /// What the innermost one asks for; empty: there is none.
  [[nodiscard]] static std::optional<WhileAway> while_away() noexcept;

 private:
  const std::stop_token stop_;
  const WhileAway away_;
  const StopScope* const outer_;
};

}  // namespace twinbox
