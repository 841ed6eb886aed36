// Writes down what became of some messages, in one transaction.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/verdict.hpp"

namespace twinbox {

struct Settlement {
  std::shared_ptr<const Message> message;  ///< shared with the task it belongs to
  Verdict verdict;
};

/// Returns how many changed nothing, because somebody else holds the message by now. Throws
/// DatabaseError.
std::size_t settle(WorkQueue& queue, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements);
std::size_t settle(WorkQueue& queue, Session& session, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements);

/// Tells log and observer of those that failed or died.
void report(const WorkQueue& queue, const DispatchObserver& observer,
            const std::vector<Settlement>& settlements);

}  // namespace twinbox
