// A broker, as the relay over it is measured.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "twinbox/handler.hpp"

namespace twinbox::bench {

inline constexpr std::size_t broker_payload_size = 256;

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
