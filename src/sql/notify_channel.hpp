// The channel between the writers of a box and its waiting dispatchers in a PostgreSQL database.
#pragma once

#include <cstdint>
#include <string>

#include "sql/render.hpp"

namespace twinbox {

struct NotifyChannel {
  std::string name;  ///< for LISTEN: `infra.outbox`, or a hash where that is too long
  /// Advisory locks, held by the transactions that are going to notify: `{wake}` in the SQL.
  std::int64_t notify_lock;
  std::int64_t other_notify_lock;
};

NotifyChannel channel_of(const BoxName& box);

}  // namespace twinbox
