// Combines two observers into one.
#pragma once

#include <utility>

namespace twinbox {

/// Calls `first` and then `next`, if there is one.
template <class First, class Next>
auto then(First first, Next next) {
  return [first = std::move(first), next = std::move(next)](auto&&... arguments) {
    first(arguments...);
    if (next) next(arguments...);
  };
}

}  // namespace twinbox
