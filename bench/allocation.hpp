// Counts what the program takes from the free store.
#pragma once

#include <cstddef>

namespace twinbox::bench {

/// Calls of operator new on any thread since the program began.
std::size_t allocations() noexcept;

}  // namespace twinbox::bench
