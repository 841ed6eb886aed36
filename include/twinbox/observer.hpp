// What a dispatcher tells about itself while it works.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "twinbox/handler.hpp"
#include "twinbox/housekeeping.hpp"

namespace twinbox {

/// Told of what happens, from many threads at once; each call begins with the store's name. The
/// calls must be short and must not throw. Every member may be left empty.
struct DispatchObserver {
  using Store = std::string_view;

  std::function<void(Store, std::size_t count, Duration took)> claimed = {};
  /// A handler is about to be called; `age` is the time since the message was due.
  std::function<void(Store, const Message&, Duration age)> started = {};
  std::function<void(Store, const Message&, const Outcome&, Duration took)> handled = {};
  /// To be tried again.
  std::function<void(Store, const Message&, std::string_view error)> failed = {};
  std::function<void(Store, const Message&, std::string_view reason, std::string_view error)> dead =
      {};
  std::function<void(Store, std::size_t count, Duration took)> settled = {};
  /// Renewals or settles that came too late: somebody else holds the message, or it is finished.
  std::function<void(Store, std::size_t count)> lease_lost = {};
  std::function<void(Store, const Message&)> timed_out = {};
  /// A handler under run() has run for a third of its lease, or twice as long as the last time this
  /// was told. Always before its `handled`.
  std::function<void(Store, const Message&, Duration running)> slow = {};
  /// From a wake-up to the claim that followed it.
  std::function<void(Store, Duration latency)> woken = {};
  std::function<void(Store, std::string_view error)> loop_error = {};
  std::function<void(Store, const ChoreReport&)> chore = {};
};

}  // namespace twinbox
