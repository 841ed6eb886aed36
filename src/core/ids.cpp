#include "twinbox/ids.hpp"

#include <utility>

#include "core/text.hpp"

namespace twinbox {
namespace {

struct Bound {
  std::string_view noun;
  std::size_t limit;
};

template <class Tag>
constexpr Bound bound_of = {};
template <>
constexpr Bound bound_of<Topic> = {"topic", 255};
template <>
constexpr Bound bound_of<Source> = {"source", 255};
template <>
constexpr Bound bound_of<MessageId> = {"message id", 255};
template <>
constexpr Bound bound_of<HandlerKey> = {"handler key", 200};
template <>
constexpr Bound bound_of<CorrelationId> = {"correlation id", 255};
template <>
constexpr Bound bound_of<PartitionKey> = {"partition key", 255};
template <>
constexpr Bound bound_of<LeaseName> = {"lease name", 200};

}  // namespace

template <class Tag>
BoundedText<Tag>::BoundedText(std::string text) : text_(std::move(text)) {
  check_text(bound_of<Tag>.noun, text_, bound_of<Tag>.limit);
}

template BoundedText<Topic>::BoundedText(std::string);
template BoundedText<Source>::BoundedText(std::string);
template BoundedText<MessageId>::BoundedText(std::string);
template BoundedText<HandlerKey>::BoundedText(std::string);
template BoundedText<CorrelationId>::BoundedText(std::string);
template BoundedText<PartitionKey>::BoundedText(std::string);
template BoundedText<LeaseName>::BoundedText(std::string);

Topic Topic::event_name(std::string text) {
  check_text("event name", text, 500);
  return Topic{std::move(text), Unchecked{}};
}

MessageId MessageId::event_id(std::string text) {
  check_text("event id", text, 256);
  return MessageId{std::move(text), Unchecked{}};
}

std::optional<CorrelationId> CorrelationId::or_none(std::string text) {
  if (text.empty()) return std::nullopt;
  return CorrelationId{std::move(text)};
}

}  // namespace twinbox
