// How many bytes of bodies without a token are held at once, and which of them make room. No
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

  /// So many more bytes of a body have come; `body` is what the call before returned for it, 0 at
  /// first. When all of them would be more than `limit`, bodies that are still being read lose
  /// their room, and their `drop` is called: the one that has been silent longest first. Returns 0
  /// when there is no room even so, or when this body has lost its own: it then holds none.
  [[nodiscard]] Id grow(Id body, std::size_t bytes, std::size_t limit, Drop drop);
  /// It has come as a whole, and keeps its room until `release_body`. False: it has lost it.
  [[nodiscard]] bool complete(Id body);
  /// Ends one that is still being read; no matter whether it has lost its room.
  void end(Id body);
  /// Of a body that was complete.
  void release_body(std::size_t bytes);
  [[nodiscard]] std::size_t used() const;

 private:
  struct Body {
    std::size_t bytes = 0;
    Drop drop = {};
  };
  /// By their last bytes: those of the first one came longest ago.
  using Reading = std::map<Id, Body>;

  mutable std::mutex mutex_;
  Reading reading_;
  std::size_t reading_bytes_ = 0;
  std::size_t complete_bytes_ = 0;
  Id last_ = 0;
};

}  // namespace twinbox::app
