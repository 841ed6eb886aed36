// What the tests of RabbitMQ share: names of their own, a source that runs, and ways to wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "rabbit.hpp"
#include "relay.hpp"
#include "support/inbox_test.hpp"
#include <twinbox/rabbitmq.hpp>

namespace twinbox::test {

/// Until `ready` holds; false after a minute and a half.
inline bool eventually(const std::function<bool()>& ready) {
  const auto end = std::chrono::steady_clock::now() + 90s;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);  // asks the broker again
  }
  return true;
}

/// A name that no other test and no other run uses.
inline std::string own_name(const std::string& what) {
  static std::atomic<int> number = 0;
  return "twinbox_test." + std::to_string(getpid()) + "." + std::to_string(++number) + "." + what;
}

/// A source on its thread; ends with the object, and has acknowledged by then what it accepted.
class RunningSource {
 public:
  RunningSource(const RabbitConnection& connection, const RabbitSourceOptions& options,
                AcceptCall accept, Environment environment = {})
      : source_(rabbitmq_source(
            connection, options,
            [this, accept = std::move(accept)](std::span<const Arrival> arrivals) {
              return count(accept(arrivals));
            },
            std::move(environment))),
        thread_([this](std::stop_token stop) { source_->run(std::move(stop)); }) {}

  [[nodiscard]] SourceStatus status() const { return source_->status(); }
  /// Until that many have been accepted, duplicates counted; false after a minute and a half.
  bool wait_for(std::size_t accepted) {
    std::unique_lock lock{mutex_};
    return some_.wait_for(lock, 90s, [&] { return accepted_ >= accepted; });
  }
  void stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::vector<Accepted> count(std::vector<Accepted> answers) {
    const std::scoped_lock lock{mutex_};
    accepted_ += answers.size();
    some_.notify_all();
    return answers;
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::size_t accepted_ = 0;
  std::unique_ptr<BrokerSource> source_;
  std::jthread thread_;
};

class RabbitTest : public InboxTest {
 protected:
  static RabbitConnection connection() { return {.url = Rabbit::url()}; }
  /// A classic queue of the test's own, with a queue for its dead letters.
  RabbitSourceOptions source_options() {
    if (queue.empty()) {
      queue = rabbit.queue(own_name("in"));
      rabbit.queue(queue + ".dead");
    }
    return {.queue = queue, .queue_type = "classic", .retry = {.max_retries = 2, .delay = 1ms}};
  }
  RunningSource run(RabbitSourceOptions options) {
    return {connection(), std::move(options), accept_into(inbox()), environment()};
  }
  std::unique_ptr<RunningSource> run() {
    return std::make_unique<RunningSource>(connection(), source_options(), accept_into(inbox()),
                                           environment());
  }
  void send(const std::string& id, const std::string& topic = "order.placed") {
    rabbit.publish("", queue, {.body = payload(id), .message_id = id, .type = topic});
  }
  MessageKey key(const std::string& id) { return {Source{"rabbitmq"}, MessageId{id}}; }

  Rabbit rabbit;
  std::string queue;
};

}  // namespace twinbox::test
