// Where the writers of a box and those who wait for work meet in a PostgreSQL database.
#pragma once

#include <cstdint>
#include <string>

#include "sql/render.hpp"

namespace twinbox {

struct Channel {
  std::string name;           ///< for LISTEN: `infra.outbox`, or a hash where that is too long
  std::int64_t telling_lock;  ///< advisory, held by the transactions that are going to notify
};

Channel channel_of(const BoxName& box);

/// SQL that tells whoever listens, once the transaction commits; an expression that is always 0.
std::string wake_expression(const BoxName& box);

}  // namespace twinbox
