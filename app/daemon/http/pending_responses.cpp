#include "daemon/http/pending_responses.hpp"

#include <utility>

namespace twinbox::app {

PendingResponses::Answer PendingResponses::add(Answer answer) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t number = next_++;
  waiting_.emplace(number, std::move(answer));
  return [this, number](HttpResponse response) {
    std::unique_lock guard{mutex_};
    auto found = waiting_.extract(number);
    guard.unlock();
    if (!found.empty()) found.mapped()(std::move(response));
  };
}

void PendingResponses::respond_all(const HttpResponse& response) {
  std::map<std::uint64_t, Answer> all;
  {
    const std::lock_guard lock{mutex_};
    all.swap(waiting_);
  }
  for (auto& [number, answer] : all) answer(response);
}

}  // namespace twinbox::app
