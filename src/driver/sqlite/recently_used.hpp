// A bounded map that forgets what was not used for the longest time.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <utility>

namespace twinbox {

template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t bound) noexcept : bound_(bound) {}

  /// The value of `key`, made by `make()` when it is not known. Valid until the next call.
  template <class Lookup, class Make>
  Value& get(const Lookup& key, Make&& make) {
    if (const auto found = index_.find(key); found != index_.end()) {
      values_.splice(values_.begin(), values_, found->second);
      return values_.front().second;
    }
    if (index_.size() >= bound_) {
      index_.erase(values_.back().first);
      values_.pop_back();
    }
    values_.emplace_front(Key{key}, make());
    try {
      index_.emplace(values_.front().first, values_.begin());
    } catch (...) {
      values_.pop_front();
      throw;
    }
    return values_.front().second;
  }

  [[nodiscard]] std::size_t size() const noexcept { return index_.size(); }

 private:
  using Values = std::list<std::pair<Key, Value>>;

  std::size_t bound_;
  Values values_;
  std::map<Key, typename Values::iterator, std::less<>> index_;
};

}  // namespace twinbox
