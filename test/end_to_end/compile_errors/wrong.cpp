// Mistakes in calls of the library. Each line says which words the compiler must show for it. Where
// lines expect the same words, their values differ in type, so that each of them is an error of its
// own.
#include <tuple>

#include <twinbox/channel.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>

using namespace twinbox;

struct Unwritable {
  static constexpr std::string_view topic = "order.placed";
};
struct WithoutTopic {
  [[nodiscard]] std::string to_payload() const { return "{}"; }
};

// A call and its words stand on one line.
// clang-format off
void mistakes(Outbox& outbox, Inbox& inbox, Channels& channels, Session& session, Instant at,
              std::span<const HandlerName> handlers, OwnerToken owner) {
  const Topic topic{"a"};
  outbox.enqueue({.topic = topic, .payload = "", .due_at = at});                      // expect: due_at is a field of extras: write .extras = {.due_at = ...}
  outbox.enqueue(session, {.topic = topic, .payload = "", .delay = Duration{1}});     // expect: delay is a field of extras
  outbox.enqueue({.topic = topic, .payload = "", .headers = "{}"});                   // expect: headers is a field of extras
  outbox.enqueue({.topic = topic, .payload = "", .partition_key = PartitionKey{"k"}});  // expect: partition_key is a field of extras
  outbox.enqueue({.topic = "order.placed", .payload = ""});                           // expect: topic is a Topic: write .topic = Topic{
  outbox.enqueue({.topic = topic, .payload = 3});                                     // expect: payload is a std::string
  outbox.enqueue({.topic = topic, .payload = "", .id = "order-7"});                   // expect: id is a MessageId: write .id = MessageId{
  outbox.enqueue(NewMessage{.topic = topic, .paylod = ""});                           // expect: paylod
  outbox.enqueue(WithoutTopic{});                                                     // expect: the type has no topic, see TopicOf
  outbox.enqueue(session, Unwritable{});                                              // expect: the type cannot be written as a payload, see Encode
  inbox.accept({.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .expires_at = at});  // expect: expires_at is a field of extras
  inbox.accept(session, {.source = "s", .id = MessageId{"1"}, .topic = topic, .payload = ""});  // expect: source is a Source: write .source = Source{
  inbox.accept({.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .correlation_id = CorrelationId{"c"}}, handlers);  // expect: correlation_id is a field of extras
  inbox.accept(session, {.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .content_type = "text/plain"}, handlers);  // expect: content_type is a field of extras
  std::ignore = inbox.accept_and_claim({.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .hash = "1"}, owner, default_lease);  // expect: hash is a field of extras
  std::ignore = inbox.accept_and_claim(session, {.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .hash = "22"}, owner, default_lease, handlers);  // expect: hash is a field of extras
  inbox.mark_processed({.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .hash = "333"});  // expect: hash is a field of extras
  inbox.mark_processed(session, {.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .hash = "4444"});  // expect: hash is a field of extras
  channels.accept({.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .hash = "55555"});  // expect: hash is a field of extras
  channels.accept("mail", {.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .hash = "666666"});  // expect: hash is a field of extras
  channels.accept(session, "mail", {.source = Source{"s"}, .id = MessageId{"1"}, .topic = topic, .payload = "", .hash = "7777777"});  // expect: hash is a field of extras
}
// clang-format on
