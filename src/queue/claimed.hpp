// Reads a row of `claim`: the columns of the define `claimed` in work.sql, in its order.
#pragma once

#include "twinbox/message.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

Message read_claimed(const Row& row);

}  // namespace twinbox
