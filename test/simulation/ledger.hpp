// What the actors of a world know for certain, and what must follow from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include <twinbox/message.hpp>

namespace twinbox::simulation {

/// The store broke a promise.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One delivery, by the names that never change.
struct DeliveryName {
  std::string id, handler;
  auto operator<=>(const DeliveryName&) const = default;
};

enum class Ending { none, done, dead, discarded };

class Ledger {
 public:
  /// The store has answered that the delivery is durable.
  void promised(const DeliveryName& delivery) { promised_.insert(delivery); }

  /// The clock has moved. A lease that it has passed is over, even when it steps back: somebody may
  /// have taken it over or cleared it.
  void clock_moved(Instant now);

  /// Throws Violation when somebody's lease still lives, its key is busy or held, or the delivery
  /// is finished.
  void claimed(const Message& message, Instant now);
  void renewed(const Lease& lease, Instant until);
  /// A settle has answered how many it changed. Throws Violation when a stale one changed
  /// something, when one that held a live lease changed nothing, or when a delivery is finished
  /// twice.
  void settled(const Message& message, std::size_t changed, Ending ending, Instant now);
  /// The answer to a settle is lost: from here on both may be true.
  void settle_in_doubt(const Message& message);

  /// What dies from now on holds its partition key: nobody else of the key may be claimed.
  void hold_keys() noexcept { hold_keys_ = true; }
  /// A person has sent a dead delivery again, or perhaps not.
  void requeued(const DeliveryName& delivery);
  /// A person has thrown a dead delivery away; `certain`: the store has answered so.
  void discarded(const DeliveryName& delivery, bool certain);
  /// What was sent again may have expired by now.
  void expired();
  [[nodiscard]] bool operated(const DeliveryName& delivery) const {
    return operated_.contains(delivery);
  }

  [[nodiscard]] const std::set<DeliveryName>& promises() const noexcept { return promised_; }
  [[nodiscard]] const std::map<DeliveryName, Ending>& finished() const noexcept {
    return finished_;
  }

 private:
  struct LiveLease {
    std::int32_t epoch;
    Instant until;
    std::optional<std::string> partition;  ///< handler and key
    bool certain = true;                   ///< it has not been settled, nor maybe, nor been over
  };

  std::set<DeliveryName> promised_;
  std::map<DeliveryName, Ending> finished_;
  std::map<DeliveryId, LiveLease> leases_;
  bool hold_keys_ = false;
  std::map<DeliveryName, std::string> holders_;  ///< → handler and key
  std::set<DeliveryName> operated_;
};

/// The name of a message's delivery.
DeliveryName delivery_of(const Message& message);

}  // namespace twinbox::simulation
