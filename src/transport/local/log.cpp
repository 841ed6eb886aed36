#include <cstdint>

#include "twinbox/sink.hpp"

namespace twinbox {

MessageHandler log_sink(Environment environment, LogLevel level) {
  return [environment = std::move(environment), level](const Message& message, std::stop_token) {
    const std::string_view content_type =
        message.content_type ? std::string_view{*message.content_type} : std::string_view{};
    environment.write(level, "deliver",
                      {{"topic", message.topic.view()},
                       {"id", message.id.view()},
                       {"source", message.source.view()},
                       {"content_type", content_type},
                       {"size", static_cast<std::int64_t>(message.payload.size())},
                       {"attempt", std::int64_t{message.attempts} + 1}});
    return Outcome::done();
  };
}

}  // namespace twinbox
