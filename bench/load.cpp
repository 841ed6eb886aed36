#include "load.hpp"

namespace twinbox::bench {
namespace {

MessageExtras usual_extras() {
  return {
      .correlation_id = CorrelationId{"order-4711-0f3c9c1e-8a52"},
      .content_type = "application/json",
      .headers = R"({"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})"};
}

}  // namespace

std::string a_payload(std::size_t size) {
  std::string text = R"({"order":4711,"customer":"c-000042","text":")";
  while (text.size() + 2 < size) text += static_cast<char>('a' + text.size() % 26);
  return text + "\"}";
}

std::vector<NewMessage> some_messages(std::size_t count, std::size_t payload_size) {
  return {count, NewMessage{.topic = Topic{"order.placed"},
                            .payload = a_payload(payload_size),
                            .extras = usual_extras()}};
}

std::vector<Arrival> some_arrivals(std::size_t count, std::size_t payload_size) {
  static const Environment environment;
  const std::string payload = a_payload(payload_size);
  std::vector<Arrival> arrivals;
  arrivals.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    arrivals.push_back({.source = Source{"shop"},
                        .id = MessageId::make(environment),
                        .topic = Topic{"order.placed"},
                        .payload = payload,
                        .extras = usual_extras()});
  }
  return arrivals;
}

std::string size_text(std::size_t bytes) {
  return bytes % 1024 == 0 ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes) + " B";
}

}  // namespace twinbox::bench
