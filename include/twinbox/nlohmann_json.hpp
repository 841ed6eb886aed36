// Payloads by nlohmann::json: every type that it reads and writes works with typed handlers and
// enqueue(value). Twinbox does not need the library: you install it.
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
    const nlohmann::json json = parsed(payload);
    try {
      return json.template get<T>();
    } catch (const nlohmann::json::exception& error) {
      // With JSON_DIAGNOSTICS the error text names the place in the payload.
      if (std::string_view{error.what()}.find("] (") == std::string_view::npos) throw;
      throw std::invalid_argument("the payload is not of this type, by error " +
                                  std::to_string(error.id) + " of nlohmann::json");
    }
  }

 private:
  /// The parser's own texts quote the payload, which must not reach a log.
  static nlohmann::json parsed(std::string_view payload) {
    try {
      return nlohmann::json::parse(payload);
    } catch (const nlohmann::json::parse_error& error) {
      throw std::invalid_argument("the payload is not JSON, at byte " + std::to_string(error.byte));
    } catch (const nlohmann::json::exception&) {
      throw std::invalid_argument("the payload holds a number that is too large");
    }
  }
};

template <NlohmannWritable T>
struct Encode<T> {
  static constexpr std::string_view content_type = "application/json";
  static std::string to(const T& value) { return nlohmann::json(value).dump(); }
};

}  // namespace twinbox
