// The headers of a NATS message: every line is a header, a continuation, or named as a fault.
#include <algorithm>

#include "require.hpp"
#include "transport/nats/headers.hpp"

using namespace twinbox;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const nats::Headers headers = nats::parse_headers(text);
  require(headers.status.size() <= 3, "a status has three digits");
  for (const auto& [name, value] : headers.list) {
    require(!name.empty() && name.find(':') == std::string::npos, "a name ends at the colon");
    require(value.find("\r\n") == std::string::npos, "a value ends with its line");
    require(value.find('\0') == std::string::npos, "a zero byte is refused");
  }
  return 0;
}
