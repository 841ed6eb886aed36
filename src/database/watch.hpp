// How a process learns of what others commit in a database.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>

namespace twinbox {

/// Learns of commits that others make in one database. Used by one thread at a time.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Watch() = default;
  /// Readable when something may have changed; below zero: there is none. Several watches may share
  /// one; then each of them has to be asked when it is readable. May change with changed().
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  /// True when something may have been committed by others since the last call. Never waits. Throws
  /// DatabaseError when it can no longer tell: open another one then.
  virtual bool changed() = 0;
  /// When changed() has to be asked again though the descriptor stays silent; empty: never.
  [[nodiscard]] virtual std::optional<Clock::time_point> look_again() const { return {}; }
  /// While nobody waits to be told, nothing is told, and writers are spared the cost. As soon as
  /// somebody waits again, what was missed makes changed() true. Throws DatabaseError.
  virtual void set_waiting(bool waiting) = 0;
};

/// It has turned out that nobody can be told of commits here; the text says why and the way out.
class WatchImpossible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens a watch. Owns what it needs: it may outlive the driver it came from. May take some
/// seconds, and ends early, by an exception, when a stop is requested. Null: it takes a connection,
/// and the budget has none to spare now. Throws DatabaseError, or WatchImpossible when it need not
/// be tried again.
using OpenWatch = std::function<std::unique_ptr<Watch>(const std::stop_token& stop)>;

}  // namespace twinbox
