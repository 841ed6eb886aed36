// Sources: a broker's deliveries are accepted into an inbox. docs/reference/brokers.md has the
// tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "twinbox/intake.hpp"

namespace twinbox {

/// A broker cannot be reached, refuses a request, or has gone. The text names it and the fix, never
/// a password.
class BrokerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Who creates the broker's objects: exchanges, queues, streams, consumers, topics.
enum class Topology {
  declare,  ///< Twinbox creates missing ones
  check,    ///< they must exist
};

/// How to handle a delivery that cannot be accepted. Waiting for an unreachable store is unlimited
/// and not counted: the broker keeps unacknowledged deliveries.
struct SourceRetry {
  int max_retries = 5;  ///< then it is published to the dead-letter destination
  Duration delay = std::chrono::seconds{1};  ///< doubled with each
  Duration max_delay = std::chrono::minutes{1};
};

struct SourceStatus {
  bool connected = false;
  std::string error = {};  ///< why it is not connected, or what fails; empty: no error
  std::uint64_t accepted = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t retried = 0;
  std::uint64_t dead = 0;  ///< published to the dead-letter destination
};

/// Consumes from a broker. A delivery is acknowledged after the transaction that accepts it has
/// been committed, never before; the later outcome of its handlers does not affect that.
/// Thread-safe, but only one thread may run it at a time.
class BrokerSource {
 public:
  virtual ~BrokerSource() = default;

  /// Connects, consumes, and reconnects after errors, until `stop`. Accepted deliveries are
  /// acknowledged before it returns. Throws nothing that a broker or a store can cause.
  virtual void run(std::stop_token stop) = 0;
  [[nodiscard]] virtual SourceStatus status() const = 0;
};

}  // namespace twinbox
