// The JSON format of CloudEvents: what is taken can be written, and says the same when read again.
#include "require.hpp"
#include <twinbox/event.hpp>

using namespace twinbox;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  try {
    const CloudEvent event = event_from_json(text);
    require(event_from_json(to_json(event)) == event, "an event survives being written");
  } catch (const EventError& error) {
    require(std::string_view{error.what()}.size() < 1000, "errors are short");
  }
  try {
    const auto events = events_from_json(text, 100);
    require(events.size() <= 100, "a batch is bounded");
    require(events_from_json(to_json(std::span{events})) == events,
            "a batch survives being written");
  } catch (const EventError&) {
  }
  return 0;
}
