// The names and numbers that identify objects. Each has its own type; none converts to another.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace twinbox {

struct Environment;

/// Marks text that is already checked (it comes from our own tables), so that it is not checked
/// again.
struct Unchecked {};

/// Text of a bounded length: UTF-8, not empty, not only blanks, no NUL, counted in UTF-16 code
/// units. The constructor throws std::invalid_argument with a message that names the field and its
/// bound.
template <class Tag>
class BoundedText {
 public:
  explicit BoundedText(std::string text);
  BoundedText(std::string text, Unchecked) noexcept : text_(std::move(text)) {}

  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  [[nodiscard]] std::string_view view() const noexcept { return text_; }

  auto operator<=>(const BoundedText&) const = default;

 protected:
  std::string text_;
};

/// The subject of a message; handlers are found by it. At most 255 characters.
struct Topic : BoundedText<Topic> {
  using BoundedText::BoundedText;
  /// An event name on the event-bus path: at most 500 characters.
  static Topic event_name(std::string text);
};

/// The system that sent a message. At most 255 characters.
struct Source : BoundedText<Source> {
  using BoundedText::BoundedText;
  /// The reserved source of calls without one: `-`.
  static Source none() { return Source{"-", Unchecked{}}; }
};

/// Identifies a message within its source: an arrival with a known id is a duplicate. At most 255
/// characters.
struct MessageId : BoundedText<MessageId> {
  using BoundedText::BoundedText;
  /// An event id on the event-bus path: at most 256 characters.
  static MessageId event_id(std::string text);
  /// A new UUID v7, made here, so that a repeated enqueue finds its own message.
  static MessageId make(const Environment& environment);
};

/// The stable name of one handler among several. At most 200 characters.
struct HandlerKey : BoundedText<HandlerKey> {
  using BoundedText::BoundedText;
  /// The key of a delivery that is routed by topic: empty.
  static HandlerKey by_topic() { return HandlerKey{"", Unchecked{}}; }
};

/// Links related messages. At most 255 characters.
struct CorrelationId : BoundedText<CorrelationId> {
  using BoundedText::BoundedText;
  /// For external text, where an empty one means none.
  static std::optional<CorrelationId> or_none(std::string text);
};

/// Messages with the same key are handled one after the other. At most 255 characters.
struct PartitionKey : BoundedText<PartitionKey> {
  using BoundedText::BoundedText;
};

/// The name of a lease, which one owner holds at a time. At most 200 characters.
struct LeaseName : BoundedText<LeaseName> {
  using BoundedText::BoundedText;
};

/// 128 bits, as in RFC 9562.
struct Uuid {
  std::array<std::uint8_t, 16> bytes{};

  /// Throws std::invalid_argument unless `text` is 8-4-4-4-12 hexadecimal digits.
  static Uuid parse(std::string_view text);
  [[nodiscard]] std::string str() const;
  [[nodiscard]] bool is_zero() const noexcept { return *this == Uuid{}; }

  auto operator<=>(const Uuid&) const = default;
};

/// The holder of a lease: one token per worker. After an asynchronous failover of PostgreSQL a
/// server may issue the same epochs again to a token used before: make a new token for each claim,
/// or after each failover.
class OwnerToken {
 public:
  /// Throws std::invalid_argument when `uuid` is all zero.
  explicit OwnerToken(Uuid uuid);
  static OwnerToken make(const Environment& environment);

  [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }
  [[nodiscard]] std::string str() const { return uuid_.str(); }

  auto operator<=>(const OwnerToken&) const = default;

 private:
  Uuid uuid_;
};

/// One delivery: a message and a handler. Assigned by the database, ascending, never reused.
class DeliveryId {
 public:
  explicit constexpr DeliveryId(std::int64_t number) noexcept : number_(number) {}
  [[nodiscard]] constexpr std::int64_t number() const noexcept { return number_; }

  auto operator<=>(const DeliveryId&) const = default;

 private:
  std::int64_t number_;
};

/// One claim of a delivery: a settle with it changes nothing once another worker has claimed the
/// delivery.
struct Lease {
  DeliveryId work;
  std::int32_t epoch;

  auto operator<=>(const Lease&) const = default;
};

/// The identity of a message: compared byte by byte on every path.
struct MessageKey {
  Source source;
  MessageId id;

  auto operator<=>(const MessageKey&) const = default;
};

}  // namespace twinbox

template <>
struct std::hash<twinbox::DeliveryId> {
  std::size_t operator()(twinbox::DeliveryId id) const noexcept {
    return std::hash<std::int64_t>{}(id.number());
  }
};
