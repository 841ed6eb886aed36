// What could not be accepted and was given back to the server, which brings it again after a delay.
// It has no partition key: nothing waits for it.
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
    std::string reply = {};  ///< where the server hears about it
  };
  static constexpr std::size_t max_entries = 10'000;

  /// It has failed once more.
  void add(std::uint64_t number, std::string reply) {
    Entry& one = all_[number];
    ++one.failures;
    one.reply = std::move(reply);
    if (all_.size() > max_entries) all_.erase(all_.begin());
  }
  /// How often it has failed; 0: it was never given back.
  [[nodiscard]] int failures(std::uint64_t number) const {
    const auto found = all_.find(number);
    return found == all_.end() ? 0 : found->second.failures;
  }
  /// It does not come again.
  void settled(std::uint64_t number) { all_.erase(number); }
  /// All up to `floor` are acknowledged, by whomever, and none behind `last` has been delivered:
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
