// For the compiler's errors: a field of a message that stands in the wrong place, or has the wrong
// type, is named. `enqueue({.topic = …, .due_at = …})` fits no message; it fits these, whose fields
// refuse what was written. A name that is misspelled fits nothing: write NewMessage{…} to see it
// named.
#pragma once

#include <concepts>
#include <optional>
#include <string>

#include "twinbox/message.hpp"

namespace twinbox::fields {

template <class>
inline constexpr bool never = false;

#define TWINBOX_FIELD(Name, Right, text)                  \
  struct Name {                                           \
    Name() = default;                                     \
    template <class T>                                    \
    Name(T&&) { /* NOLINT */                              \
      static_assert(std::convertible_to<T, Right>, text); \
    }                                                     \
  };
#define TWINBOX_MISPLACED(Name, field)                                                    \
  struct Name {                                                                           \
    Name() = default;                                                                     \
    template <class T>                                                                    \
    Name(T&&) { /* NOLINT */                                                              \
      static_assert(never<T>,                                                             \
                    #field " is a field of extras: write .extras = {." #field " = ...}"); \
    }                                                                                     \
  };

TWINBOX_FIELD(TopicField, Topic, "topic is a Topic: write .topic = Topic{\"order.placed\"}")
TWINBOX_FIELD(PayloadField, std::string, "payload is a std::string")
TWINBOX_FIELD(IdField, std::optional<MessageId>, "id is a MessageId: write .id = MessageId{...}")
TWINBOX_FIELD(SourceField, std::optional<Source>,
              "source is a Source: write .source = Source{\"shop\"}")
TWINBOX_MISPLACED(CorrelationIdField, correlation_id)
TWINBOX_MISPLACED(PartitionKeyField, partition_key)
TWINBOX_MISPLACED(DueAtField, due_at)
TWINBOX_MISPLACED(DelayField, delay)
TWINBOX_MISPLACED(ExpiresAtField, expires_at)
TWINBOX_MISPLACED(ContentTypeField, content_type)
TWINBOX_MISPLACED(HeadersField, headers)
TWINBOX_MISPLACED(HashField, hash)
#undef TWINBOX_FIELD
#undef TWINBOX_MISPLACED

/// NewMessage, with the fields of its extras beside the others.
struct OfNewMessage {
  TopicField topic = {};
  PayloadField payload = {};
  IdField id = {};
  SourceField source = {};
  MessageExtras extras = {};
  CorrelationIdField correlation_id = {};
  PartitionKeyField partition_key = {};
  DueAtField due_at = {};
  DelayField delay = {};
  ExpiresAtField expires_at = {};
  ContentTypeField content_type = {};
  HeadersField headers = {};
  HashField hash = {};
};

/// Arrival, likewise.
struct OfArrival {
  SourceField source = {};
  IdField id = {};
  TopicField topic = {};
  PayloadField payload = {};
  MessageExtras extras = {};
  OnDuplicate on_duplicate = OnDuplicate::replace;
  CorrelationIdField correlation_id = {};
  PartitionKeyField partition_key = {};
  DueAtField due_at = {};
  DelayField delay = {};
  ExpiresAtField expires_at = {};
  ContentTypeField content_type = {};
  HeadersField headers = {};
  HashField hash = {};
};

}  // namespace twinbox::fields
