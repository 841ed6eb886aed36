// Counts what the program takes from the free store.
#pragma once

#include <cstddef>

namespace twinbox::bench {

/// Calls of operator new on any thread while it lives, one of them at a time. Only then: a count
/// that all threads share slows them down.
class Allocations {
 public:
  Allocations() noexcept;
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  [[nodiscard]] std::size_t count() const noexcept;
};

}  // namespace twinbox::bench
