// What open pages are told without asking: server-sent events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/http_server.hpp"

namespace twinbox::app {

/// One kind of event; whoever listens gets the latest, and each that follows. One that is slow
/// misses what was overtaken meanwhile. Thread-safe.
class LiveFeed {
 public:
  static constexpr std::size_t max_listeners = 64;
  static constexpr std::size_t max_per_token =
      16;  ///< listeners with the same token, or without one

  /// `data` has no line break.
  void publish(std::string_view event, std::string_view data);
  /// `wake` is called from other threads whenever there is something to send; `may_receive` tells
  /// each time whether this listener may still hear it. `token` is the name of its token, or empty.
  /// Null: there are too many. The feed must outlive what is returned.
  [[nodiscard]] std::unique_ptr<EventStream> listen(std::string token, std::function<void()> wake,
                                                    std::function<bool()> may_receive);
  [[nodiscard]] std::size_t listeners() const;

 private:
  class Listener;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::string> latest_;  // shared with whoever sends it now
  std::uint64_t number_ = 0;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::function<void()>> wake_calls_;
  std::map<std::string, std::size_t> listeners_by_token_;  // by token
};

}  // namespace twinbox::app
