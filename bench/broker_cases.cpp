#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "backlog.hpp"
#include "broker_side.hpp"
#include "cases.hpp"
#include "twinbox/dispatcher.hpp"

namespace twinbox::bench {
namespace {

constexpr double relay_target = 0.60;

/// A dispatcher that brings what the outbox holds to the broker.
class Relay {
 public:
  Relay(Dialect dialect, const BrokerSide& side)
      : backlog_(dialect, Backlog::Side::ours, 1, broker_payload_size),
        outbox_(backlog_.place().database(), backlog_.place().site().options()),
        side_(side) {}

  double run(int count) {
    side_.empty();
    backlog_.fill(count);
    Handlers handlers;
    handlers.add(TopicPattern{"#"}, {side_.sink, {.max_batch = 500}});
    std::mutex mutex;
    std::condition_variable some;
    int done = 0;
    DispatchObserver observer;
    observer.handled = [&](std::string_view, const Message&, const Outcome& outcome, Duration) {
      if (outcome.kind() != Outcome::Kind::done) throw std::runtime_error(outcome.reason());
      const std::scoped_lock lock{mutex};
      if (++done == count) some.notify_all();
    };
    DispatcherOptions options;
    options.batch = 1000;
    options.lease = lease;
    Dispatcher dispatcher{outbox_, handlers, options, observer};
    const auto begin = std::chrono::steady_clock::now();
    {
      const std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
      std::unique_lock lock{mutex};
      if (!some.wait_for(lock, std::chrono::minutes{5}, [&] { return done == count; })) {
        throw std::runtime_error("the relay does not end");
      }
    }  // and written down
    return rate(count, begin);
  }

 private:
  Backlog backlog_;
  Outbox outbox_;
  BrokerSide side_;
};

/// How fast the store alone can be drained.
double drain_rate(Dialect dialect, int count) {
  Backlog backlog{dialect, Backlog::Side::ours, 1, broker_payload_size};
  backlog.fill(count);
  const auto begin = std::chrono::steady_clock::now();
  backlog.drain(count, 1000);
  return rate(count, begin);
}

using Ceiling = std::function<double(const BrokerSide&, Dialect, int count)>;

double slower_of_both(const BrokerSide& side, Dialect dialect, int count) {
  return std::min(side.plain(count), drain_rate(dialect, count));
}

double plain_alone(const BrokerSide& side, Dialect, int count) { return side.plain(count); }

Case relay_case(const std::string& name, BrokerSide (*make)(), Dialect dialect, double target,
                const Ceiling& ceiling) {
  return {"relay over " + name, dialect, "msg/s", target, false, [=](const Repetitions& effort) {
            const BrokerSide side = make();
            auto relay = std::make_shared<Relay>(dialect, side);
            // Enough that the rate counts, not how a dispatcher starts and stops.
            const int count = 5 * effort.backlog;
            return Comparison{[=] { return relay->run(count); },
                              [=] { return ceiling(side, dialect, count); }};
          }};
}

}  // namespace

std::string broker_setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error("no broker: tool/brokers start <folder>");
  return value;
}

std::vector<Case> broker_cases([[maybe_unused]] Dialect dialect) {
  std::vector<Case> cases;
  [[maybe_unused]] const auto add = [&](const std::string& broker, BrokerSide (*make)()) {
    cases.push_back(relay_case(broker, make, dialect, relay_target, slower_of_both));
    cases.push_back(relay_case(broker + ", against the plain publisher", make, dialect, no_target,
                               plain_alone));
  };
#if TWINBOX_RABBITMQ
  add("RabbitMQ", rabbitmq_side);
#endif
#if TWINBOX_NATS
  add("NATS", nats_side);
#endif
#if TWINBOX_KAFKA
  add("Kafka", kafka_side);
#endif
  if (cases.empty()) throw std::runtime_error("this program was built without brokers");
  return cases;
}

}  // namespace twinbox::bench
