// The memory budget of bodies without a token, and the choice of bodies to evict. Independent of
// sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace twinbox::app {

/// Thread-safe.
class AnonymousBodies {
 public:
  using Id = std::uint64_t;
  using Drop = std::function<void()>;

  /// Reserves memory for more bytes of a body; `body` is the result of the previous call, at first
  /// 0. If the total would exceed `limit`, bodies that are still being read are evicted and their
  /// `drop` is called, the longest idle one first. Returns 0 if there is still no room, or if this
  /// body was evicted: it then holds no memory.
  [[nodiscard]] Id grow(Id body, std::size_t bytes, std::size_t limit, Drop drop);
  /// Marks a body as complete; it keeps its memory until `release_body`. False: it was evicted.
  [[nodiscard]] bool complete(Id body);
  /// Ends a body that is still being read, evicted or not.
  void end(Id body);
  /// Releases a complete body.
  void release_body(std::size_t bytes);
  [[nodiscard]] std::size_t used() const;

 private:
  struct Body {
    std::size_t bytes = 0;
    Drop drop = {};
  };
  /// Ordered by the time of their last bytes, oldest first.
  using Reading = std::map<Id, Body>;

  mutable std::mutex mutex_;
  Reading reading_;
  std::size_t reading_bytes_ = 0;
  std::size_t complete_bytes_ = 0;
  Id last_ = 0;
};

}  // namespace twinbox::app
