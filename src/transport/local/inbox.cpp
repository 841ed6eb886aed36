#include <utility>

#include "twinbox/database.hpp"
#include "twinbox/sink.hpp"

namespace twinbox {
namespace {

/// The same message on its way in: who made it, what it says and what it belongs to stay.
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

}  // namespace

HandlerCall inbox_sink(Inbox& inbox, const Database& from, InboxSinkOptions options) {
  if (&inbox.database() == &from) {
    return TransactionalHandler{[&inbox, options = std::move(options)](
                                    Session& session, const Message& message, std::stop_token) {
      inbox.accept(session, arrival_of(message, options));
      return Outcome::done();
    }};
  }
  return MessageHandler{
      [&inbox, options = std::move(options)](const Message& message, std::stop_token) {
        inbox.accept(arrival_of(message, options));
        return Outcome::done();
      }};
}

MessageHandler channel_sink(Channels& channels, std::string channel, InboxSinkOptions options) {
  return [&channels, channel = std::move(channel), options = std::move(options)](
             const Message& message, std::stop_token) {
    channels.accept(channel, arrival_of(message, options));
    return Outcome::done();
  };
}

}  // namespace twinbox
