#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/json.hpp"
#include "core/text.hpp"
#include "queue/box.hpp"
#include "twinbox/channel.hpp"
#include "twinbox/error.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

std::string quoted(std::string_view text) { return "'" + std::string{text} + "'"; }

/// The headers of a message with the name of its transport, unless they bring one.
std::optional<std::string> with_transport(const std::optional<std::string>& headers,
                                          const std::string& transport) {
  if (transport.empty()) return headers;
  if (headers && (!is_json_object(*headers) || json_object_has(*headers, "transport"))) {
    return headers;  // accept refuses headers that are no object, with its own error
  }
  std::string text = "{\"transport\":";
  append_json_string(text, transport);
  if (!headers) return text + "}";
  const std::size_t inside = headers->find('{') + 1;
  const bool empty = headers->find_first_not_of(" \t\r\n", inside) == headers->rfind('}');
  return text + (empty ? "" : ",") + headers->substr(inside);
}

/// The arrival in its stored form; `copy` holds it when it differs from the argument.
const Arrival& labelled(const Arrival& arrival, const std::string& transport,
                        std::optional<Arrival>& copy) {
  std::optional<std::string> headers = with_transport(arrival.extras.headers, transport);
  if (headers == arrival.extras.headers) return arrival;
  copy = arrival;
  copy->extras.headers = std::move(headers);
  return *copy;
}

/// A message that was never stored, as its handler sees it.
Message passing(const Arrival& arrival, Instant now) {
  const MessageExtras& extras = arrival.extras;
  return {.delivery_id = DeliveryId{0},
          .epoch = 0,
          .handler = HandlerKey::by_topic(),
          .attempts = 0,
          .expiries = 0,
          .requeues = 0,
          .visible_at = now,
          .lease_until = now,
          .last_error = {},
          .source = arrival.source,
          .id = arrival.id,
          .topic = arrival.topic,
          .payload = arrival.payload,
          .content_type = extras.content_type,
          .headers = extras.headers,
          .correlation_id = extras.correlation_id,
          .partition_key = extras.partition_key,
          .hash = extras.hash,
          .due_at = extras.due_at,
          .expires_at = extras.expires_at,
          .created_at = now,
          .last_seen_at = now,
          .seen_count = 1,
          .content_version = 0};
}

/// The outcome of a handler that is called only once; empty: done.
std::string complaint(const HandlerEntry& entry, const Message& message) {
  try {
    const Outcome outcome = std::get<MessageHandler>(entry.call)(message, {});
    switch (outcome.kind()) {
      case Outcome::Kind::done: return {};
      case Outcome::Kind::postpone: return "postponed, which needs an inbox";
      default: return truncate_error(outcome.reason());
    }
  } catch (const std::exception& error) {
    return truncate_error(text_of(error));
  } catch (...) {
    return "the handler threw something that is no std::exception";
  }
}

bool same_tables(const Inbox& one, const Inbox& other) {
  if (one.options().schema != other.options().schema ||
      one.options().table != other.options().table) {
    return false;
  }
  if (&one.database() == &other.database()) return true;
  const Driver::Location a = pool_of(one.database()).driver().location();
  const Driver::Location b = pool_of(other.database()).driver().location();
  return !a.database.empty() && a.server == b.server && a.database == b.database;
}

}  // namespace

Channel& Channel::changed() {
  if (sealed_) {
    throw UsageError("channel " + quoted(name_) +
                     ": cannot be changed after Channels::check(); describe all channels first");
  }
  return *this;
}

Channel& Channel::from(Source source) {
  changed().source_ = std::move(source);
  return *this;
}

Channel& Channel::over(std::string transport) {
  check_text("transport", transport, 255);
  changed().transport_ = std::move(transport);
  return *this;
}

Channel& Channel::uses(Inbox& inbox) {
  changed().inbox_ = &inbox;
  return *this;
}

Channel& Channel::allow_without_inbox() {
  changed().may_lack_inbox_ = true;
  return *this;
}

Channel& Channel::add(const Topic& topic, std::optional<HandlerKey> key, HandlerEntry entry) {
  entry.check("channel " + quoted(name_) + ": handler for topic " + quoted(topic.view()));
  changed().consumers_.push_back({topic, std::move(key), std::move(entry)});
  return *this;
}

void Channel::find_problems(std::vector<std::string>& problems) const {
  const std::string channel = "channel " + quoted(name_);
  if (consumers_.empty()) problems.push_back(channel + ": has no handlers; add one with on()");
  for (const Consumer& consumer : consumers_) {
    const std::string what = channel + ": handler for topic " + quoted(consumer.topic.view());
    const HandlerOptions& options = consumer.entry.options;
    if (inbox_ != nullptr) {
      if (!consumer.key) {
        problems.push_back(what + " has no key; with an inbox every handler needs one");
      }
      continue;
    }
    if (consumer.key) {
      problems.push_back(what + " has the key " + quoted(consumer.key->view()) +
                         ", which is stored with a delivery and so needs an inbox; call uses(), or "
                         "leave the key out");
    }
    if (!std::holds_alternative<MessageHandler>(consumer.entry.call) || options.at_most_once ||
        options.retry || options.timeout || !options.legacy_keys.empty()) {
      problems.push_back(what +
                         " is transactional, at-most-once or for batches, or has a retry policy, a "
                         "timeout or legacy keys, which all need an inbox; call uses()");
    }
  }
}

Channels::Channels(ChannelPolicy policy, Environment environment)
    : policy_(policy), environment_(std::move(environment)) {}

Channel& Channels::add(std::string name) {
  check_text("channel name", name, 255);
  if (checked_) {
    throw UsageError("channel " + quoted(name) + ": add it before Channels::check()");
  }
  const auto [found, added] = channels_.try_emplace(name, Channel{name});
  if (!added) {
    throw UsageError("channel " + quoted(name) + ": this name is in use; choose another one");
  }
  return found->second;
}

void Channels::find_clashes(std::vector<std::string>& problems) const {
  std::map<std::string_view, std::string> owners;
  for (const auto& [name, channel] : channels_) {
    for (const Channel::Consumer& consumer : channel.consumers_) {
      if (!consumer.key) continue;
      const auto take = [&](const HandlerKey& key, const std::string& owner) {
        const auto [known, free] = owners.try_emplace(key.view(), owner);
        if (!free) {
          problems.push_back("key " + quoted(key.view()) + ": used by " + known->second + " and " +
                             owner + "; keys and legacy keys are unique over all channels");
        }
      };
      const std::string owner =
          "channel " + quoted(name) + " for topic " + quoted(consumer.topic.view());
      take(*consumer.key, owner);
      for (const HandlerKey& legacy : consumer.entry.options.legacy_keys) {
        take(legacy, owner + " as a legacy key");
      }
    }
  }
}

void Channels::find_shared_tables(std::vector<std::string>& problems) const {
  const std::vector<Inbox*> stores = inboxes();
  for (auto one = stores.begin(); one != stores.end(); ++one) {
    for (auto other = std::next(one); other != stores.end(); ++other) {
      if (!same_tables(**one, **other)) continue;
      problems.push_back("store " + (*one)->database().name() +
                         ": two Inbox objects have the table " + quoted((*one)->options().table) +
                         ", so that each would be given the other's work; let the channels share "
                         "one");
    }
  }
}

void Channels::check() {
  std::vector<std::string> problems;
  std::vector<std::string_view> lacking;
  for (const auto& [name, channel] : channels_) {
    channel.find_problems(problems);
    if (channel.inbox_ == nullptr && !channel.may_lack_inbox_) lacking.push_back(name);
  }
  find_clashes(problems);
  find_shared_tables(problems);
  if (policy_.without_inbox == WithoutInbox::fail) {
    for (const std::string_view name : lacking) {
      problems.push_back("channel " + quoted(name) +
                         ": has no inbox; call uses(), or allow_without_inbox() if that is meant");
    }
  }
  if (!problems.empty()) {
    std::string text = "channels:";
    for (const std::string& problem : problems) text += "\n- " + problem;
    throw UsageError(text);
  }
  if (policy_.without_inbox == WithoutInbox::warn) {
    for (const std::string_view name : lacking) {
      environment_.write(LogLevel::warning, "channel_without_inbox", {{"channel", name}});
    }
  }
  if (!checked_) {
    for (auto& [name, channel] : channels_) {
      channel.sealed_ = true;
      for (const Channel::Consumer& consumer : channel.consumers_) {
        auto& handlers = channel.handlers_[consumer.topic.str()];
        if (consumer.key) handlers.push_back({*consumer.key, consumer.entry.options.legacy_keys});
        auto& takers = by_topic_[consumer.topic.str()];
        if (takers.empty() || takers.back() != &channel) takers.push_back(&channel);
      }
    }
    checked_ = true;
  }
  for (Inbox* inbox : inboxes()) unclaimed_keys(*inbox, handlers_of(*inbox));
}

void Channels::require_checked() const {
  if (!checked_) throw UsageError("channels: call check() once before they are used");
}

const Channel& Channels::named(std::string_view name) const {
  const auto found = channels_.find(name);
  if (found == channels_.end()) {
    throw std::invalid_argument("channel " + quoted(name) + ": not found");
  }
  return found->second;
}

const Channel& Channels::open(std::string_view name, const Arrival& arrival) const {
  require_checked();
  const Channel& channel = named(name);
  if (channel.source_ && *channel.source_ != arrival.source) {
    throw std::invalid_argument("channel " + quoted(name) + ": takes messages from " +
                                quoted(channel.source_->view()) + ", not from " +
                                quoted(arrival.source.view()));
  }
  if (!channel.handlers_.contains(arrival.topic.view())) {
    throw std::invalid_argument("channel " + quoted(name) + ": no handler for topic " +
                                quoted(arrival.topic.view()));
  }
  return channel;
}

Accepted Channels::accept(std::string_view name, const Arrival& arrival) {
  const Channel& channel = open(name, arrival);
  if (channel.inbox_ == nullptr) {
    call_directly(channel, arrival);
    return {Acceptance::accepted};
  }
  std::optional<Arrival> copy;
  return channel.inbox_->accept(labelled(arrival, channel.transport_, copy),
                                channel.handlers_.find(arrival.topic.view())->second);
}

Accepted Channels::accept(Session& session, std::string_view name, const Arrival& arrival) {
  const Channel& channel = open(name, arrival);
  if (channel.inbox_ == nullptr) {
    throw UsageError("channel " + quoted(name) +
                     ": has no inbox, so it cannot be part of a transaction; call accept "
                     "without the session, after the commit");
  }
  std::optional<Arrival> copy;
  return channel.inbox_->accept(session, labelled(arrival, channel.transport_, copy),
                                channel.handlers_.find(arrival.topic.view())->second);
}

std::vector<Channels::Delivered> Channels::accept(const Arrival& arrival) {
  require_checked();
  std::vector<const Channel*> takers;
  if (const auto found = by_topic_.find(arrival.topic.view()); found != by_topic_.end()) {
    for (const Channel* channel : found->second) {
      if (!channel->source_ || *channel->source_ == arrival.source) takers.push_back(channel);
    }
  }
  if (takers.empty()) {
    throw std::invalid_argument("no channel takes topic " + quoted(arrival.topic.view()) +
                                " from " + quoted(arrival.source.view()));
  }
  std::map<Inbox*, Accepted> answers;
  for (const Channel* first : takers) {
    if (first->inbox_ == nullptr || answers.contains(first->inbox_)) continue;
    std::vector<HandlerName> handlers;
    std::string transport;
    for (const Channel* channel : takers) {
      if (channel->inbox_ != first->inbox_) continue;
      const auto& names = channel->handlers_.find(arrival.topic.view())->second;
      handlers.insert(handlers.end(), names.begin(), names.end());
      if (transport.empty()) transport = channel->transport_;
    }
    std::optional<Arrival> copy;
    answers.emplace(first->inbox_,
                    first->inbox_->accept(labelled(arrival, transport, copy), handlers));
  }
  std::vector<Delivered> delivered;
  for (const Channel* channel : takers) {
    if (channel->inbox_ == nullptr) call_directly(*channel, arrival);
    delivered.push_back({channel->name_, channel->inbox_ == nullptr ? Accepted{Acceptance::accepted}
                                                                    : answers.at(channel->inbox_)});
  }
  return delivered;
}

void Channels::call_directly(const Channel& channel, const Arrival& arrival) const {
  const Instant now = environment_.now().value_or(
      std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()));
  for (const Channel::Consumer& consumer : channel.consumers_) {
    if (consumer.topic != arrival.topic) continue;
    Message message = passing(arrival, now);
    message.headers = with_transport(message.headers, channel.transport_);
    const std::string error = complaint(consumer.entry, message);
    if (error.empty()) continue;
    environment_.write(LogLevel::error, "handler_error",
                       {{"channel", std::string_view{channel.name_}},
                        {"topic", arrival.topic.view()},
                        {"id", arrival.id.view()},
                        {"error", std::string_view{error}}});
  }
}

Handlers Channels::handlers_of(const Inbox& inbox) const {
  require_checked();
  Handlers handlers;
  for (const auto& [name, channel] : channels_) {
    if (channel.inbox_ != &inbox) continue;
    for (const Channel::Consumer& consumer : channel.consumers_) {
      handlers.add(*consumer.key, consumer.entry);
    }
  }
  // A dispatcher without handlers would make dead letters of everything it finds there.
  if (handlers.keys().empty()) {
    throw UsageError("store " + inbox.database().name() +
                     ": no channel uses this Inbox object of " + quoted(inbox.options().table) +
                     "; pass the one that was given to uses()");
  }
  return handlers;
}

Inbox* Channels::inbox_of(std::string_view channel) const { return named(channel).inbox_; }

std::vector<Inbox*> Channels::inboxes() const {
  std::vector<Inbox*> all;
  for (const auto& [name, channel] : channels_) {
    if (channel.inbox_ != nullptr && std::find(all.begin(), all.end(), channel.inbox_) == all.end())
      all.push_back(channel.inbox_);
  }
  return all;
}

}  // namespace twinbox
