// Server-sent events for open pages.
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

/// One kind of event. A listener gets the latest event and each that follows; a slow one skips
/// outdated events. Thread-safe.
class LiveFeed {
 public:
  static constexpr std::size_t max_listeners = 64;
  static constexpr std::size_t max_per_token =
      16;  ///< listeners with the same token, or without one

  /// `data` has no line break.
  void publish(std::string_view event, std::string_view data);
  /// Other threads call `wake` when there is something to send; `may_receive` decides each time
  /// whether the listener is still authorized. `token` is the name of its token, or empty. Null:
  /// too many listeners. The feed must outlive the result.
  [[nodiscard]] std::unique_ptr<EventStream> listen(std::string token, std::function<void()> wake,
                                                    std::function<bool()> may_receive);
  [[nodiscard]] std::size_t listeners() const;

 private:
  class Listener;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::string> latest_;  // shared with the sending connections
  std::uint64_t number_ = 0;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::function<void()>> wake_calls_;
  std::map<std::string, std::size_t> listeners_by_token_;  // by token
};

}  // namespace twinbox::app
