#include "simulation/sending.hpp"

#include <algorithm>
#include <array>

namespace twinbox::simulation {
namespace {

using namespace std::chrono_literals;

struct Name {
  const char* name;
  Kind kind;
};
constexpr std::array<Name, 6> topics{{{"plain", Kind::plain},
                                      {"batch", Kind::batch},
                                      {"transactional", Kind::transactional},
                                      {"once", Kind::once},
                                      {"again", Kind::again},
                                      {"nobody", Kind::nobody}}};
constexpr std::array<Name, 6> keys{{{"audit", Kind::plain},
                                    {"bulk", Kind::batch},
                                    {"books", Kind::transactional},
                                    {"letter", Kind::once},
                                    {"call", Kind::again},
                                    {"stranger", Kind::nobody}}};

Kind find(const std::array<Name, 6>& names, const std::string& name) {
  return std::find_if(names.begin(), names.end(), [&](const Name& one) { return name == one.name; })
      ->kind;
}

template <class Where>
void add(Handlers& handlers, const Behaviour& behaviour, const Where& where, Kind kind) {
  switch (kind) {
    case Kind::plain:
    case Kind::once:
    case Kind::again:
      handlers.add(
          where, HandlerEntry::of([handle = behaviour.handle,
                                   kind](const Message& message) { return handle(message, kind); },
                                  {.at_most_once = kind != Kind::plain,
                                   .release_claim_on_error = kind == Kind::again}));
      break;
    case Kind::transactional:
      handlers.add(where, HandlerEntry::of(behaviour.handle_in_transaction));
      break;
    case Kind::batch:
      handlers.on_batch(
          where,
          [handle = behaviour.handle_batch](std::span<const Message> messages,
                                            const std::stop_token&) { return handle(messages); },
          {.max_batch = 3});
      break;
    case Kind::nobody: break;
  }
}

}  // namespace

Sending choose_sending(Dice& dice, std::size_t stores, bool is_inbox) {
  Sending sending{dice.roll(stores), topics[dice.roll(topics.size())].name, {}, {}};
  if (is_inbox && dice.one_in(2)) {
    for (const Name& key : keys) {
      if (dice.one_in(2)) sending.keys.emplace_back(key.name);
    }
  }
  if (dice.one_in(3)) sending.partition_key = dice.one_in(2) ? "x" : "y";
  return sending;
}

MessageExtras choose_extras(Dice& dice, const Sending& sending, Instant now) {
  MessageExtras extras;
  if (sending.partition_key) extras.partition_key = PartitionKey{*sending.partition_key};
  if (dice.one_in(6)) extras.due_at = now + 20s;
  if (dice.one_in(8)) extras.expires_at = now + 120s;
  return extras;
}

NewMessage message_of(const std::string& id, const Sending& sending, const MessageExtras& extras) {
  return {Topic{sending.topic}, "content", MessageId{id}, {}, extras};
}

Arrival arrival_of(const std::string& id, const Sending& sending, const MessageExtras& extras) {
  return {Source::none(), MessageId{id}, Topic{sending.topic}, "content", extras};
}

std::vector<HandlerName> handlers_of(const Sending& sending) {
  std::vector<HandlerName> handlers;
  for (const std::string& key : sending.keys) handlers.push_back({HandlerKey{key}});
  return handlers;
}

std::vector<DeliveryName> deliveries_of(const std::string& id, const Sending& sending) {
  if (sending.keys.empty()) return {{id, ""}};
  std::vector<DeliveryName> deliveries;
  for (const std::string& key : sending.keys) deliveries.push_back({id, key});
  return deliveries;
}

Kind kind_of(const DeliveryName& delivery, const Sending& sending) {
  return delivery.handler.empty() ? find(topics, sending.topic) : find(keys, delivery.handler);
}

Handlers make_handlers(const Behaviour& behaviour) {
  Handlers handlers;
  for (const auto& [name, kind] : topics) add(handlers, behaviour, Topic{name}, kind);
  for (const auto& [name, kind] : keys) add(handlers, behaviour, HandlerKey{name}, kind);
  return handlers;
}

}  // namespace twinbox::simulation
