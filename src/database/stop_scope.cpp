#include <utility>

#include "twinbox/database.hpp"

namespace twinbox {
namespace {

const std::stop_token never_stops;
thread_local const StopScope* innermost = nullptr;

}  // namespace

StopScope::StopScope(std::stop_token stop, WhileAway away) noexcept
    : stop_(std::move(stop)), away_(away), outer_(std::exchange(innermost, this)) {}

StopScope::~StopScope() { innermost = outer_; }

const std::stop_token& StopScope::token() noexcept {
  return innermost == nullptr ? never_stops : innermost->stop_;
}

std::optional<StopScope::WhileAway> StopScope::while_away() noexcept {
  if (innermost == nullptr) return {};
  return innermost->away_;
}

}  // namespace twinbox
