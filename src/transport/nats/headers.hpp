// The headers of a NATS message, read from its bytes. The client library's own reader takes the
// header after an empty one for its value, and mixes up names that begin alike.
#pragma once

#include <nats/nats.h>
#include <string>
#include <string_view>

#include "transport/wire_message.hpp"

namespace twinbox::nats {

struct Headers {
  std::string status = {};       ///< three digits, of the server's own messages
  std::string description = {};  ///< follows the status
  WireHeaders list = {};         ///< in order; a name may occur several times
  std::string fault = {};        ///< the error in them; the list has the others

  /// The first value of exactly that name; empty: there is none.
  [[nodiscard]] std::string_view find(std::string_view name) const noexcept;
};

/// `text`: from `NATS/1.0` to the empty line.
Headers parse_headers(std::string_view text);
/// Of a received message, before any function of the library has read them, which changes them.
Headers read_headers(const natsMsg& message);

/// Adds them to a message that is to be sent. Throws std::bad_alloc.
void add_headers(natsMsg& message, WireHeaders list);

}  // namespace twinbox::nats
