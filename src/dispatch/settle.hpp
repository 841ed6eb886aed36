// Settles messages in one transaction.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/verdict.hpp"

namespace twinbox {

struct Settlement {
  std::shared_ptr<const Message> message;  ///< shared with the task it belongs to
  Verdict verdict;
};

/// Returns how many were unchanged because another worker holds the message. Throws DatabaseError.
std::size_t settle(WorkQueue& queue, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements);
std::size_t settle(WorkQueue& queue, Session& session, const OwnerToken& owner,
                   const std::vector<Settlement>& settlements);

/// Reports failed and dead ones to log and observer.
void report(const WorkQueue& queue, const DispatchObserver& observer,
            const std::vector<Settlement>& settlements);

}  // namespace twinbox
