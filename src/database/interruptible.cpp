#include "twinbox/interruptible.hpp"

#include <utility>

namespace twinbox {
namespace {

const std::stop_token never_stops;
thread_local const std::stop_token* innermost = &never_stops;

}  // namespace

Interruptible::Interruptible(std::stop_token stop) noexcept
    : stop_(std::move(stop)), outer_(std::exchange(innermost, &stop_)) {}

Interruptible::~Interruptible() { innermost = outer_; }

const std::stop_token& Interruptible::token() noexcept { return *innermost; }

}  // namespace twinbox
