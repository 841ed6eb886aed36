#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>

#include "core/text.hpp"
#include "twinbox/error.hpp"
#include "twinbox/sink.hpp"

namespace twinbox {
namespace {

using Clock = std::chrono::steady_clock;

std::string quoted(std::string_view text) { return "'" + std::string{text} + "'"; }

}  // namespace

/// One route, its state and its counters; shared by Routes and the handlers made of it.
class Routes::RunningRoute : public std::enable_shared_from_this<Routes::RunningRoute> {
 public:
  RunningRoute(Route route, RouteObserver observer, Environment environment)
      : route_(std::move(route)),
        observer_(std::move(observer)),
        environment_(std::move(environment)),
        enabled_(route_.enabled),
        reason_(route_.enabled ? "" : "disabled by its definition") {}

  [[nodiscard]] const Route& route() const noexcept { return route_; }

  [[nodiscard]] HandlerEntry handler() {
    return {std::visit([&](const auto& sink) { return wrapped(sink); }, route_.sink),
            route_.options};
  }

  void enable() {
    {
      const std::scoped_lock lock{mutex_};
      if (enabled_) return;
      enabled_ = true;
      reason_.clear();
    }
    environment_.write(LogLevel::info, "enable_route", {{"route", std::string_view{route_.name}}});
    if (observer_.enabled) observer_.enabled(route_.name);
  }

  void disable(std::string_view reason) {
    const std::string cut = truncate_error(reason);
    {
      const std::scoped_lock lock{mutex_};
      if (!enabled_) return;
      enabled_ = false;
      reason_ = cut;
    }
    environment_.write(
        LogLevel::warning, "disable_route",
        {{"route", std::string_view{route_.name}}, {"reason", std::string_view{cut}}});
    if (observer_.disabled) observer_.disabled(route_.name, cut);
  }

  [[nodiscard]] RouteStatus status() const {
    const std::scoped_lock lock{mutex_};
    const auto count = [&](Outcome::Kind kind) {
      return counts_[static_cast<std::size_t>(kind)].load();
    };
    return {route_.name,
            route_.pattern.str(),
            enabled_,
            reason_,
            count(Outcome::Kind::done),
            count(Outcome::Kind::retry),
            count(Outcome::Kind::dead),
            count(Outcome::Kind::postpone)};
  }

 private:
  HandlerCall wrapped(const MessageHandler& sink) {
    return MessageHandler{
        [self = shared_from_this(), sink](const Message& message, std::stop_token stop) {
          return self->deliver(message, [&] { return sink(message, std::move(stop)); });
        }};
  }
  HandlerCall wrapped(const TransactionalHandler& sink) {
    return TransactionalHandler{[self = shared_from_this(), sink](Session& session,
                                                                  const Message& message,
                                                                  std::stop_token stop) {
      return self->deliver(message, [&] { return sink(session, message, std::move(stop)); });
    }};
  }
  HandlerCall wrapped(const BatchHandler& sink) {
    return BatchHandler{
        [self = shared_from_this(), sink](std::span<const Message> messages, std::stop_token stop) {
          return self->deliver_all(messages, [&] { return sink(messages, std::move(stop)); });
        }};
  }

  template <class F>
  Outcome deliver(const Message& message, F&& sink) {
    return deliver_all({&message, 1}, [&] { return std::vector{sink()}; }).at(0);
  }

  template <class F>
  std::vector<Outcome> deliver_all(std::span<const Message> messages, F&& sink) {
    const auto begin = Clock::now();
    std::vector<Outcome> outcomes;
    try {
      outcomes = enabled_ ? sink() : postpone_all(messages);
    } catch (const ReceiverGone& gone) {
      disable(gone.what());
      outcomes = postpone_all(messages);
    } catch (const std::exception& error) {
      report(messages, std::vector(messages.size(), Outcome::retry(truncate_error(text_of(error)))),
             begin);
      throw;
    }
    report(messages, outcomes, begin);
    return outcomes;
  }

  // By the database's clock, like claims: to the time at which the claim would have ended.
  static std::vector<Outcome> postpone_all(std::span<const Message> messages) {
    std::vector<Outcome> outcomes;
    for (const Message& message : messages) {
      outcomes.push_back(Outcome::postpone(message.lease_until));
    }
    return outcomes;
  }

  void report(std::span<const Message> messages, const std::vector<Outcome>& outcomes,
              Clock::time_point begin) {
    const auto took = std::chrono::duration_cast<Duration>(Clock::now() - begin) /
                      static_cast<std::int64_t>(messages.size());
    for (std::size_t i = 0; i < std::min(messages.size(), outcomes.size()); ++i) {
      ++counts_[static_cast<std::size_t>(outcomes[i].kind())];
      if (observer_.delivered) observer_.delivered(route_.name, messages[i], outcomes[i], took);
    }
  }

  const Route route_;
  const RouteObserver observer_;
  const Environment environment_;
  mutable std::mutex mutex_;
  std::atomic<bool> enabled_;
  std::string reason_;
  std::array<std::atomic<std::uint64_t>, 4> counts_{};  ///< by Outcome::Kind
};

Routes::Routes(std::vector<Route> routes, RouteObserver observer, Environment environment) {
  for (Route& route : routes) {
    check_text("route name", route.name, 200);
    for (const auto& other : routes_) {
      const Route& earlier = other->route();
      if (earlier.name == route.name) {
        throw UsageError("route " + quoted(route.name) + ": there are two of that name");
      }
      if (earlier.pattern == route.pattern) {
        throw UsageError("route " + quoted(route.name) + ": would never be used, because " +
                         quoted(earlier.name) + " comes first with the same pattern " +
                         quoted(route.pattern.str()));
      }
    }
    HandlerEntry{route.sink, route.options}.check("route " + quoted(route.name));
    routes_.push_back(std::make_shared<RunningRoute>(std::move(route), observer, environment));
  }
}

Routes::~Routes() = default;
Routes::Routes(Routes&&) noexcept = default;
Routes& Routes::operator=(Routes&&) noexcept = default;

Handlers Routes::handlers() const {
  Handlers handlers;
  for (const auto& one : routes_) handlers.add(one->route().pattern, one->handler());
  return handlers;
}

Routes::RunningRoute& Routes::find_route(std::string_view name) const {
  for (const auto& one : routes_) {
    if (one->route().name == name) return *one;
  }
  throw UsageError("route " + quoted(name) + ": not found");
}

void Routes::enable(std::string_view name) { find_route(name).enable(); }

void Routes::disable(std::string_view name, std::string_view reason) {
  find_route(name).disable(reason);
}

std::vector<RouteStatus> Routes::status() const {
  std::vector<RouteStatus> all;
  for (const auto& one : routes_) all.push_back(one->status());
  return all;
}

}  // namespace twinbox
