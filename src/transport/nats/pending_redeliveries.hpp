// The deliveries that a consumer held when its process or connection ended are redelivered only
// after ack_wait, and newer messages come before them: messages with an order have to wait.
#pragma once

#include <cstdint>
#include <set>

namespace twinbox::nats {

/// Not thread-safe. Numbers are those of the stream.
class PendingRedeliveries {
 public:
  /// Up to `last` messages have been delivered before, of which `count` are unacknowledged.
  PendingRedeliveries(std::uint64_t last, std::uint64_t count) : last_(last), count_(count) {}

  [[nodiscard]] bool open() const noexcept { return count_ > 0; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  void on_received(std::uint64_t number) {
    if (count_ > 0 && number <= last_ && received_.insert(number).second &&
        received_.size() >= count_) {
      end();
    }
  }
  /// All up to `floor` are acknowledged, and `pending` behind it are not, of which we hold `held`.
  void update(std::uint64_t floor, std::uint64_t pending, std::uint64_t held) {
    if (floor >= last_ || pending <= held) end();
  }
  void end() {
    count_ = 0;
    received_.clear();
  }

 private:
  std::uint64_t last_;
  std::uint64_t count_;
  std::set<std::uint64_t> received_;
};

}  // namespace twinbox::nats
