// Payloads by Boost.JSON: every type that Boost.JSON reads and writes, such as a struct described
// with Boost.Describe, works with typed handlers and enqueue(value). Twinbox does not need the
// library here: you link it.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "twinbox/typed.hpp"

namespace twinbox {

template <class T>
concept BoostJsonReadable = boost::json::has_value_to<T>::value && !requires {
  T::from_payload(std::string_view{});
};

template <class T>
concept BoostJsonWritable = boost::json::has_value_from<T>::value && !requires(const T& value) {
  value.to_payload();
};

template <BoostJsonReadable T>
struct Decode<T> {
  static T from(std::string_view payload) {
    return boost::json::value_to<T>(boost::json::parse({payload.data(), payload.size()}));
  }
};

template <BoostJsonWritable T>
struct Encode<T> {
  static constexpr std::string_view content_type = "application/json";
  static std::string to(const T& value) {
    return boost::json::serialize(boost::json::value_from(value));
  }
};

}  // namespace twinbox
