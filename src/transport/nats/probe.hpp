// What a server reports before any login, and on its monitoring port.
#pragma once

#include <string>

#include "twinbox/nats.hpp"

namespace twinbox::nats {

/// Whether acknowledged messages are on disk.
struct SyncPolicy {
  enum class State {
    unknown,   ///< the server does not report it
    always,    ///< it is
    sometimes  ///< a power failure can lose the messages since the last sync
  };
  State state;
  std::string text;  ///< the finding
};
/// Reads the server's version and, if that is not enough, `monitor_url`. Throws nothing for an
/// unresponsive server: the answer is unknown.
SyncPolicy read_sync_policy(const NatsConnection& connection);

}  // namespace twinbox::nats
