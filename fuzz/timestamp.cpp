// RFC 3339 times.
#include "require.hpp"
#include <twinbox/event.hpp>

using namespace twinbox;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto time = Timestamp::parse(text_of(data, size));
  if (!time) return 0;
  require(time->str() == text_of(data, size), "a time is kept as it came");
  const Timestamp printed{time->instant()};
  const auto again = Timestamp::parse(printed.str());
  require(again == printed, "what is printed can be read");
  return 0;
}
