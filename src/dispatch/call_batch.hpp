// Batch handlers: which messages go into one call, and what it says about each of them.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "twinbox/handler.hpp"

namespace twinbox {

/// Which of some claimed messages are handled together: those of one batch handler, up to its
/// max_batch; every other message alone. Positions, in the order of their first message.
std::vector<std::vector<std::size_t>> batches_of(const Handlers& handlers,
                                                 std::span<const Message> messages);

/// What one call says about each message, in their order.
struct BatchAnswer {
  std::vector<Outcome> outcomes;
  std::string error = {};  ///< of the whole call: then every outcome is a retry for that reason
  std::string_view cause = {};  ///< of that error, as the log shows it
};

/// Calls the handler once. An exception, or a wrong number of outcomes, is a retry of all. Throws
/// nothing.
BatchAnswer call_batch(const BatchHandler& handler, std::span<const Message> messages,
                       std::stop_token stop);

}  // namespace twinbox
