// Payloads by nlohmann::json: whatever it can read and write is a type for typed handlers and for
// enqueue(value). Twinbox itself does not need the library: you install it.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "twinbox/typed.hpp"

namespace twinbox {

template <class T>
concept NlohmannReadable = requires(const nlohmann::json& json) {
  { json.get<T>() } -> std::same_as<T>;
}
&&!requires { T::from_payload(std::string_view{}); };

template <class T>
concept NlohmannWritable =
    std::constructible_from<nlohmann::json, const T&> && !requires(const T& value) {
  value.to_payload();
};

template <NlohmannReadable T>
struct Decode<T> {
  static T from(std::string_view payload) {
    try {
      return nlohmann::json::parse(payload).template get<T>();
    } catch (const nlohmann::json::parse_error& error) {
      // Its own text quotes the payload, which must not reach a log.
      throw std::invalid_argument("the payload is not JSON, at byte " + std::to_string(error.byte));
    }
  }
};

template <NlohmannWritable T>
struct Encode<T> {
  static constexpr std::string_view content_type = "application/json";
  static std::string to(const T& value) { return nlohmann::json(value).dump(); }
};

}  // namespace twinbox
