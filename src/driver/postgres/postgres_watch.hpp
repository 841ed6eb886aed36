// LISTEN on a connection of its own.
#pragma once

#include <memory>
#include <stop_token>

#include "database/watch.hpp"
#include "driver/postgres/address.hpp"
#include "sql/notify_channel.hpp"

namespace twinbox::postgres {

/// The address as a watch uses it: gives up sooner, and notices a server that has gone silently.
Address watch_address(Address address);

/// Throws DatabaseError; WatchImpossible behind a pooler, also when the address does not mention
/// it.
std::unique_ptr<Watch> open_postgres_watch(const Address& address, const NotifyChannel& channel,
                                           const std::stop_token& stop);

}  // namespace twinbox::postgres
