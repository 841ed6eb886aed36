// Deliveries that could not be accepted and were returned to the server, which redelivers them
// after a delay. They have no partition key: nothing waits for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace twinbox::nats {

/// Outlives connections, so that failures are counted across them. Not thread-safe. Numbers are
/// those of the stream.
class NakTracker {
 public:
  struct Entry {
    int failures = 0;
    std::string reply = {};  ///< where the server receives the acknowledgement
  };
  static constexpr std::size_t max_entries = 10'000;

  /// It has failed once more.
  void add(std::uint64_t number, std::string reply) {
    Entry& one = all_[number];
    ++one.failures;
    one.reply = std::move(reply);
    if (all_.size() > max_entries) all_.erase(all_.begin());
  }
  /// The number of its failures; 0: it was never returned.
  [[nodiscard]] int failures(std::uint64_t number) const {
    const auto found = all_.find(number);
    return found == all_.end() ? 0 : found->second.failures;
  }
  /// It is not redelivered.
  void settled(std::uint64_t number) { all_.erase(number); }
  /// All up to `floor` are acknowledged, by any consumer, and none after `last` has been delivered:
  /// the stream is a new one.
  void update(std::uint64_t floor, std::uint64_t last) {
    all_.erase(all_.upper_bound(last), all_.end());
    all_.erase(all_.begin(), all_.upper_bound(floor));
  }
  [[nodiscard]] const std::map<std::uint64_t, Entry>& all() const noexcept { return all_; }

 private:
  std::map<std::uint64_t, Entry> all_;
};

}  // namespace twinbox::nats
