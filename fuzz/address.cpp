// Networks that a client may connect to, and the addresses of its requests.
#include "transport/http/address.hpp"

#include <stdexcept>

#include "require.hpp"
#include "transport/http/url.hpp"

using namespace twinbox;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{text_of(data, size)};
  if (const auto address = IpAddress::parse(text)) {
    require(IpAddress::parse(address->str())->bytes == address->bytes,
            "an address can be read again");
    require(AddressFilter{{address->str()}}.refusal(*address).empty(), "what is allowed is taken");
  }
  try {
    const Network network = Network::parse(text);
    require(network.bits == 0 || network.contains(network.address), "a network has its address");
  } catch (const std::invalid_argument&) {
  }
  try {
    const HttpUrl url = HttpUrl::parse(text);
    require(url.host.starts_with("http"), "only HTTP is taken");
    require(url.display_name.find('?') == std::string::npos, "no query is shown");
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
