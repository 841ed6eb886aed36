// Detects commits by other processes in a database.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>

namespace twinbox {

/// Detects commits by others in one database. Used by one thread at a time.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Watch() = default;
  /// Readable after a possible change; below zero: there is none. Several watches may share one;
  /// then ask each of them when it is readable. May change with changed().
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  /// True when others may have committed since the last call. Never waits. Throws DatabaseError
  /// when it no longer works: open another one then.
  virtual bool changed() = 0;
  /// When to call changed() again although the descriptor stays silent; empty: never.
  [[nodiscard]] virtual std::optional<Clock::time_point> look_again() const { return {}; }
  /// Without a waiting thread, notifications are off, which spares writers their cost. When a
  /// thread waits again, missed commits make changed() true. Throws DatabaseError.
  virtual void set_waiting(bool waiting) = 0;
};

/// Notifications do not work for this database; the text says why, and what to do.
class WatchImpossible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens a watch, which owns what it needs and may outlive its driver. May take some seconds, and
/// ends early, by an exception, when a stop is requested. Null: it needs a connection, and the
/// budget has none to spare now. Throws DatabaseError, or WatchImpossible when a retry is
/// pointless.
using OpenWatch = std::function<std::unique_ptr<Watch>(const std::stop_token& stop)>;

}  // namespace twinbox
