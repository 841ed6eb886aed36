// Routes: which topics go to which sink.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/handler.hpp"
#include "twinbox/sink.hpp"
#include "twinbox/topic_pattern.hpp"

namespace twinbox {

struct Route {
  std::string name;
  TopicPattern pattern;
  HandlerCall sink;
  HandlerOptions options = {};  ///< retry policy, timeout …
  bool enabled = true;
};

/// Told from many threads at once; the calls must be short and must not throw.
struct RouteObserver {
  /// The sink has answered, or thrown (then `outcome` is the retry that follows).
  std::function<void(std::string_view route, const Message&, const Outcome&, Duration took)>
      delivered = {};
  std::function<void(std::string_view route, std::string_view reason)> disabled = {};
  std::function<void(std::string_view route)> enabled = {};
};

struct RouteStatus {
  std::string name;
  std::string pattern;
  bool enabled;
  std::string reason;  ///< why it is disabled
  std::uint64_t done;
  std::uint64_t retried;
  std::uint64_t dead;
  std::uint64_t postponed;  ///< by the sink, or because the route is disabled
};

/// The first route whose pattern matches takes the message. A disabled route keeps its topics: its
/// messages are put off by a lease's time, again and again, without counting an attempt, until it
/// is enabled. That it is disabled is known to this object only, and forgotten with it.
/// Thread-safe.
class Routes {
 public:
  /// Throws UsageError naming both routes when a name or a pattern is used twice, and what
  /// HandlerEntry::check throws.
  explicit Routes(std::vector<Route> routes, RouteObserver observer = {},
                  Environment environment = {});
  ~Routes();
  Routes(Routes&&) noexcept;
  Routes& operator=(Routes&&) noexcept;

  /// For any number of dispatchers; they keep alive what they need of this object.
  [[nodiscard]] Handlers handlers() const;

  /// Both throw UsageError when there is no such route; no change when it is so already.
  void enable(std::string_view name);
  void disable(std::string_view name, std::string_view reason);

  [[nodiscard]] std::vector<RouteStatus> status() const;

 private:
  class Entry;
  [[nodiscard]] Entry& entry(std::string_view name) const;

  std::vector<std::shared_ptr<Entry>> entries_;  ///< shared with the handlers made of them
};

}  // namespace twinbox
