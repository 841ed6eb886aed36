#include "twinbox/stop_scope.hpp"

#include <utility>

namespace twinbox {
namespace {

const std::stop_token never_stops;
thread_local const std::stop_token* innermost = &never_stops;

}  // namespace

StopScope::StopScope(std::stop_token stop) noexcept
    : stop_(std::move(stop)), outer_(std::exchange(innermost, &stop_)) {}

StopScope::~StopScope() { innermost = outer_; }

const std::stop_token& StopScope::token() noexcept { return *innermost; }

}  // namespace twinbox
