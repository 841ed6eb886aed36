// What is sent in a world with dispatchers, and who handles it how.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "simulation/calls.hpp"
#include "simulation/faulty_driver.hpp"
#include <twinbox/handler.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>

namespace twinbox::simulation {

/// What a producer wants to say under an id, and where.
struct Sending {
  std::size_t store;
  std::string topic;
  std::vector<std::string> keys;  ///< of its handlers; empty: by topic
  std::optional<std::string> partition_key;
};

/// Of any topic, with keys in an inbox only.
Sending choose_sending(Dice& dice, std::size_t stores, bool is_inbox);
MessageExtras choose_extras(Dice& dice, const Sending& sending, Instant now);
NewMessage message_of(const std::string& id, const Sending& sending, const MessageExtras& extras);
Arrival arrival_of(const std::string& id, const Sending& sending, const MessageExtras& extras);
std::vector<HandlerName> handlers_of(const Sending& sending);

std::vector<DeliveryName> deliveries_of(const std::string& id, const Sending& sending);
/// By the key of the delivery, or else by its topic.
Kind kind_of(const DeliveryName& delivery, const Sending& sending);

/// What handlers do.
struct Behaviour {
  std::function<Outcome(const Message&, Kind)> handle;
  std::function<Outcome(Session&, const Message&)> handle_in_transaction;
  std::function<std::vector<Outcome>(std::span<const Message>)> handle_batch;
};

/// One for each topic and each key that is not nobody's.
Handlers make_handlers(const Behaviour& behaviour);

}  // namespace twinbox::simulation
