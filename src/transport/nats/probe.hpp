// What a server says about itself before any login, and to whoever monitors it.
#pragma once

#include <string>

#include "twinbox/nats.hpp"

namespace twinbox::nats {

/// Whether what a stream has acknowledged is on disk.
struct SyncPolicy {
  enum class State {
    unknown,   ///< the server does not tell
    always,    ///< it is
    sometimes  ///< a power failure can lose what came since the last time
  };
  State state;
  std::string text;  ///< what was found
};
/// Asks the server's version and, when that leaves it open, `monitor_url`. Throws nothing for a
/// server that does not answer: it does not tell.
SyncPolicy read_sync_policy(const NatsConnection& connection);

}  // namespace twinbox::nats
