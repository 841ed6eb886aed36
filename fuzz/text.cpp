// Limits of names and texts: what is taken can be kept by every database.
#include "core/text.hpp"

#include <stdexcept>

#include "require.hpp"
#include <twinbox/event_bus.hpp>

using namespace twinbox;

namespace {

template <class Make>
void check(std::string_view text, std::size_t limit, Make make) {
  bool taken = true;
  try {
    require(make(std::string{text}).view() == text, "text is kept as it came");
  } catch (const std::invalid_argument&) {
    taken = false;
  }
  const bool fits = !text.empty() && !find_invalid_utf8(text) &&
                    text.find('\0') == std::string_view::npos && utf16_length(text) <= limit &&
                    !is_blank(text);
  require(taken == fits, "what fits is taken, and nothing else");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  check(text, 255, [](std::string t) { return Topic{std::move(t)}; });
  check(text, 500, [](std::string t) { return Topic::event_name(std::move(t)); });
  check(text, 256, [](std::string t) { return MessageId::event_id(std::move(t)); });
  check(text, 200, [](std::string t) { return HandlerKey{std::move(t)}; });

  const std::string error = truncate_error(text);
  require(!find_invalid_utf8(error) && utf16_length(error) <= max_error_length,
          "an error text can be kept");

  if (const auto name = EventName::of(text)) {
    try {
      require(name->type() == text, "an event's type is its name and version");
    } catch (const EventError&) {
    }
  }
  return 0;
}
