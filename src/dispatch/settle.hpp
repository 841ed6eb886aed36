// Writes down what became of some messages, in one transaction.
#pragma once

#include <vector>

#include "dispatch/verdict.hpp"

namespace twinbox {

struct Settlement {
  Message message;
  Verdict verdict;
};

/// Returns how many changed nothing, because somebody else holds the message by now. Throws
/// DatabaseError.
std::size_t settle(WorkQueue& queue, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements);

/// Tells log and observer of those that failed or died.
void report(const WorkQueue& queue, const DispatchObserver& observer,
            const std::vector<Settlement>& settlements);

}  // namespace twinbox
