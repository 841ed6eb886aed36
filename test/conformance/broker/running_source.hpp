// What the tests of brokers share: names of their own, a source that runs, and ways to wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "relay.hpp"
#include <twinbox/error.hpp>
#include <twinbox/source.hpp>

namespace twinbox::test {

using namespace std::chrono_literals;

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Accepts as a store does that is away nine times before it takes anything.
inline AcceptCall unavailable_at_first(AcceptCall accept) {
  return [accept = std::move(accept), calls = 0](std::span<const Arrival> arrivals) mutable {
    if (++calls < 10) throw DatabaseError(DatabaseError::Kind::connection_lost, "away");
    return accept(arrivals);
  };
}

/// The same of one that stays away; says that it was asked.
inline AcceptCall away(std::atomic<bool>& asked) {
  return [&asked](std::span<const Arrival>) -> std::vector<Accepted> {
    asked = true;
    throw DatabaseError(DatabaseError::Kind::connection_lost, "away");
  };
}

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
  /// `make`: a source, of an AcceptCall.
  template <class Make>
  RunningSource(AcceptCall accept, Make make)
      : source_(make([this, accept = std::move(accept)](std::span<const Arrival> arrivals) {
          return count(accept(arrivals));
        })),
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

}  // namespace twinbox::test
