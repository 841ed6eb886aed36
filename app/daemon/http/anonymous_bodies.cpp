#include "daemon/http/anonymous_bodies.hpp"

#include <utility>
#include <vector>

namespace twinbox::app {

AnonymousBodies::Id AnonymousBodies::grow(Id body, std::size_t bytes, std::size_t limit,
                                          Drop drop) {
  std::vector<Drop> dropped;
  Id id = 0;
  {
    const std::lock_guard lock{mutex_};
    std::size_t size = bytes;
    if (body != 0) {
      const auto own = reading_.find(body);
      if (own == reading_.end()) return 0;
      size += own->second.bytes;
      reading_bytes_ -= own->second.bytes;
      reading_.erase(own);
    }
    if (complete_bytes_ + size > limit) return 0;
    while (complete_bytes_ + reading_bytes_ + size > limit) {
      const auto silent = reading_.begin();
      reading_bytes_ -= silent->second.bytes;
      dropped.push_back(std::move(silent->second.drop));
      reading_.erase(silent);
    }
    id = ++last_;
    reading_bytes_ += size;
    reading_.emplace_hint(reading_.end(), id, Body{size, std::move(drop)});
  }
  for (const Drop& one : dropped) one();
  return id;
}

bool AnonymousBodies::complete(Id body) {
  const std::lock_guard lock{mutex_};
  const auto found = reading_.find(body);
  if (found == reading_.end()) return false;
  reading_bytes_ -= found->second.bytes;
  complete_bytes_ += found->second.bytes;
  reading_.erase(found);
  return true;
}

void AnonymousBodies::end(Id body) {
  const std::lock_guard lock{mutex_};
  const auto found = reading_.find(body);
  if (found == reading_.end()) return;
  reading_bytes_ -= found->second.bytes;
  reading_.erase(found);
}

void AnonymousBodies::release_body(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  complete_bytes_ -= bytes;
}

std::size_t AnonymousBodies::used() const {
  const std::lock_guard lock{mutex_};
  return complete_bytes_ + reading_bytes_;
}

}  // namespace twinbox::app
