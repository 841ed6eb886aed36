#include <utility>

#include "twinbox/database.hpp"
#include "twinbox/sink.hpp"

namespace twinbox {
namespace {

/// The same message as an arrival: its origin, its content and its keys are unchanged.
Arrival arrival_of(const Message& message, const InboxSinkOptions& options) {
  return {.source = message.source == Source::none() ? options.source : message.source,
          .id = message.id,
          .topic = message.topic,
          .payload = message.payload,
          .extras = {.correlation_id = message.correlation_id,
                     .partition_key = message.partition_key,
                     .expires_at = message.expires_at,
                     .content_type = message.content_type,
                     .headers = message.headers,
                     .hash = message.hash},
          .on_duplicate = OnDuplicate::keep_first};
}

/// A duplicate is a success; other content under the id is lost, and must be reported.
Outcome outcome_of(const Accepted& accepted, const Arrival& arrival) {
  if (!accepted.conflict) return Outcome::done();
  return Outcome::conflict("the inbox has other content under the id '" + arrival.id.str() +
                           "' of the source '" + arrival.source.str() +
                           "' and keeps it; send changed content under a new id");
}

}  // namespace

HandlerCall inbox_sink(Inbox& inbox, const Database& from, InboxSinkOptions options) {
  if (&inbox.database() == &from) {
    return TransactionalHandler{[&inbox, options = std::move(options)](
                                    Session& session, const Message& message, std::stop_token) {
      const Arrival arrival = arrival_of(message, options);
      return outcome_of(inbox.accept(session, arrival), arrival);
    }};
  }
  return MessageHandler{
      [&inbox, options = std::move(options)](const Message& message, std::stop_token) {
        const Arrival arrival = arrival_of(message, options);
        return outcome_of(inbox.accept(arrival), arrival);
      }};
}

MessageHandler channel_sink(Channels& channels, std::string channel, InboxSinkOptions options) {
  return [&channels, channel = std::move(channel), options = std::move(options)](
             const Message& message, std::stop_token) {
    const Arrival arrival = arrival_of(message, options);
    return outcome_of(channels.accept(channel, arrival), arrival);
  };
}

}  // namespace twinbox
