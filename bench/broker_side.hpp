// A broker, as the relay over it is measured.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "twinbox/handler.hpp"

namespace twinbox::bench {

inline constexpr std::size_t broker_payload_size = 256;

/// What a sink tells of a message besides its id and its body: the plain publishers tell as much.
inline constexpr std::array<std::pair<const char*, const char*>, 6> broker_labels{{
    {"twinbox-source", "-"},
    {"twinbox-topic", "order.placed"},
    {"twinbox-created-at", "2026-07-14T09:30:00.123456Z"},
    {"twinbox-correlation-id", "order-4711-0f3c9c1e-8a52"},
    {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    {"content-type", "application/json"},
}};

/// Published messages are forgotten at the beginning of each run.
struct BrokerSide {
  std::function<double(int)> plain;  ///< the client library alone, with confirms: messages per s
  std::function<void()> empty;       ///< forgets what the sink has published
  BatchHandler sink;
};

BrokerSide rabbitmq_side();
BrokerSide nats_side();
BrokerSide kafka_side();

inline double rate(int count, std::chrono::steady_clock::time_point begin) {
  return count / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
/// A setting of tool/brokers.
std::string broker_setting(const char* name);

}  // namespace twinbox::bench
