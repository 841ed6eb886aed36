// Sources: what a broker delivers comes into an inbox. docs/reference/brokers.md has the tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "twinbox/intake.hpp"

namespace twinbox {

/// A broker cannot be reached, refuses something, or has gone. The text names it and the way out,
/// never a password.
class BrokerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Who makes what a broker needs: exchanges, queues, streams, consumers, topics.
enum class Topology {
  declare,  ///< it is made where it is missing
  check,    ///< it must be there
};

/// What follows when a delivery cannot be accepted. A store that is away is waited for as long as
/// it takes, without counting: the broker keeps what is not acknowledged.
struct SourceRetry {
  int max_retries = 5;                       ///< then it goes to the broker's dead-letter place
  Duration delay = std::chrono::seconds{1};  ///< doubled with each
  Duration max_delay = std::chrono::minutes{1};
};

struct SourceStatus {
  bool connected = false;
  std::string error = {};  ///< why it is not connected, or what fails; empty: nothing
  std::uint64_t accepted = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t retried = 0;
  std::uint64_t dead = 0;  ///< brought to the broker's dead-letter place
};

/// Consumes from a broker. A delivery is acknowledged after the transaction that accepts it has
/// been committed, never before; whatever handlers make of it later changes nothing about that.
/// Thread-safe, but only one may run it at a time.
class BrokerSource {
 public:
  virtual ~BrokerSource() = default;

  /// Connects, consumes, and connects again after trouble, until `stop`. What has been accepted by
  /// then is acknowledged before it returns. Throws nothing that a broker or a store can cause.
  virtual void run(std::stop_token stop) = 0;
  [[nodiscard]] virtual SourceStatus status() const = 0;
};

}  // namespace twinbox
