#include "allocation.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> counts = false;
std::atomic<std::size_t> counted = 0;

}  // namespace

namespace twinbox::bench {

Allocations::Allocations() noexcept {
  counted = 0;
  counts = true;
}

Allocations::~Allocations() { counts = false; }

std::size_t Allocations::count() const noexcept { return counted; }

}  // namespace twinbox::bench

// The other forms of operator new and delete call these.
void* operator new(std::size_t size) {
  if (counts.load(std::memory_order_relaxed)) counted.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc{};
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
