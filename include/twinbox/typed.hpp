// Messages as your own types, with any JSON (or other) library: nlohmann_json.hpp and
// boost_json.hpp are ready to use.
#pragma once

#include <concepts>
#include <exception>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "twinbox/error.hpp"
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
/// An exception means that the payload can never be read: the message becomes dead, `malformed`.
template <class T>
struct Decode {
  static T from(std::string_view payload) requires requires { T{T::from_payload(payload)}; }
  { return T::from_payload(payload); }
};

/// How a T becomes a payload. Give T a member `std::string to_payload() const`, or specialise this
/// for a type that is not yours. Its `content_type`, if it has one, becomes the messages'.
template <class T>
struct Encode {
  static std::string to(const T& value) requires requires { std::string{value.to_payload()}; }
  { return value.to_payload(); }
};

/// The topic of messages that hold a T. Give T a member
/// `static constexpr std::string_view topic = "order.placed";`, or specialise this.
template <class T>
struct TopicOf {
  static Topic topic() requires requires { std::string{T::topic}; }
  { return Topic{std::string{T::topic}}; }
};

template <class T>
concept Encodable = requires(const T& value) {
  { Encode<T>::to(value) } -> std::convertible_to<std::string>;
};
template <class T>
concept HasTopic = requires {
  { TopicOf<T>::topic() } -> std::convertible_to<Topic>;
};

/// The message that holds `value`. Throws what Encode throws.
template <class T>
requires Encodable<T> && HasTopic<T> NewMessage message_of(const T& value,
                                                           MessageExtras extras = {}) {
  if constexpr (requires { std::string{Encode<T>::content_type}; }) {
    if (!extras.content_type) extras.content_type = std::string{Encode<T>::content_type};
  }
  return {
      .topic = TopicOf<T>::topic(), .payload = Encode<T>::to(value), .extras = std::move(extras)};
}

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
    return Outcome::malformed(std::string{text_of(error)});
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
/// or, transactional, (Session&, const T&) and (Session&, const T&, const Message&), which returns
/// Outcome or void, as one of the message.
template <Decodable T, class F>
auto typed(F&& handler) {
  using H = std::decay_t<F>;
  if constexpr (std::invocable<H&, Session&, const T&, const Message&>) {
    return [h = H{std::forward<F>(handler)}](Session& session, const Message& message) mutable {
      return with_content<T>(message,
                             [&](const T& content) { return h(session, content, message); });
    };
  } else if constexpr (std::invocable<H&, Session&, const T&>) {
    return [h = H{std::forward<F>(handler)}](Session& session, const Message& message) mutable {
      return with_content<T>(message, [&](const T& content) { return h(session, content); });
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
                        "a typed handler takes (const T&) or (Session&, const T&); see typed");
          return h(content);
        }
      });
    };
  }
}

}  // namespace twinbox
