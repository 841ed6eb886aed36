// Handlers that get a message's content as a type of their own, by whatever JSON (or other)
// library.
#pragma once

#include <concepts>
#include <exception>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "twinbox/message.hpp"
#include "twinbox/outcome.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

/// How a payload becomes a T. Give T a static member `T from_payload(std::string_view)`, or
/// specialise this for a type that is not yours:
///   template <>
///   struct twinbox::Decode<Order> {
///     static Order from(std::string_view payload) { return nlohmann::json::parse(payload); }
///   };
/// What it throws means that the payload can never be read: the message is dead, `malformed`.
template <class T>
struct Decode {
  static T from(std::string_view payload) requires requires { T{T::from_payload(payload)}; }
  { return T::from_payload(payload); }
};

template <class T>
concept Decodable = requires(std::string_view payload) {
  { Decode<T>::from(payload) } -> std::convertible_to<T>;
};

/// Calls `handle` with the content, or answers malformed.
template <Decodable T, class F>
Outcome with_content(const Message& message, F&& handle) {
  std::optional<T> content;
  try {
    content.emplace(Decode<T>::from(message.payload));
  } catch (const std::exception& error) {
    return Outcome::malformed(error.what());
  } catch (...) {
    return Outcome::malformed("the payload cannot be decoded");
  }
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const T&>>) {
    handle(*content);
    return Outcome::done();
  } else {
    return handle(*content);
  }
}

/// A handler of (const T&), (const T&, const Message&), (const T&, const Message&, std::stop_token)
/// or, transactional, (Session&, const T&, const Message&), which returns Outcome or void, as one
/// of the message: `channel.on(topic, key, typed<Order>([](const Order& order) { … }))`.
template <Decodable T, class F>
auto typed(F&& handler) {
  using H = std::decay_t<F>;
  if constexpr (std::invocable<H&, Session&, const T&, const Message&>) {
    return [h = H{std::forward<F>(handler)}](Session& session, const Message& message) mutable {
      return with_content<T>(message,
                             [&](const T& content) { return h(session, content, message); });
    };
  } else {
    return [h = H{std::forward<F>(handler)}](const Message& message, std::stop_token stop) mutable {
      return with_content<T>(message, [&](const T& content) {
        if constexpr (std::invocable<H&, const T&, const Message&, std::stop_token>) {
          return h(content, message, std::move(stop));
        } else if constexpr (std::invocable<H&, const T&, const Message&>) {
          return h(content, message);
        } else {
          static_assert(std::invocable<H&, const T&>,
                        "a typed handler takes a const T&; see typed");
          return h(content);
        }
      });
    };
  }
}

}  // namespace twinbox
