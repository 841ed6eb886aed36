// The effect of reap and expire on one page of rows.
#pragma once

#include <string_view>

#include "queue/page_walk.hpp"

namespace twinbox {

inline constexpr std::string_view expired_reason = "expired";
inline constexpr std::string_view max_age_reason = "max_age";

/// Clears expired leases, in the order of the deliveries.
void reap_page(const Box& box, Session& session, const Position& after, std::int64_t limit,
               RowPage& page);

/// Makes open deliveries past their expiry dead, oldest expiry first. Those of a partition key that
/// another transaction holds are picked and stay.
void expire_page(const Box& box, Session& session, const Position& after, std::int64_t limit,
                 RowPage& page);

/// The number of the first open message that is too young for BoxOptions::max_age to end it.
std::int64_t max_age_bound(const Box& box, Session& session);

/// Makes open deliveries of messages that are older than max_age dead, oldest message first.
/// Exempts requeued deliveries; keys as in expire_page.
void max_age_page(const Box& box, Session& session, std::int64_t below, const Position& after,
                  std::int64_t limit, RowPage& page);

}  // namespace twinbox
