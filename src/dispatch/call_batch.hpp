// Batch handlers: groups messages into calls, and reads the outcome of each.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "twinbox/handler.hpp"

namespace twinbox {

/// Groups claimed messages into calls: those of one batch handler, up to its max_batch; every other
/// message alone. Positions, in the order of their first message.
std::vector<std::vector<std::size_t>> batches_of(const Handlers& handlers,
                                                 std::span<const Message> messages);

/// The outcomes of one call, in message order.
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
