// The messages that are sent around.
#pragma once

#include <string>
#include <vector>

#include "twinbox/message.hpp"

namespace twinbox::bench {

/// `size` bytes of a JSON document.
std::string a_payload(std::size_t size);
/// Without an id: each enqueue makes new ones.
std::vector<NewMessage> some_messages(std::size_t count, std::size_t payload_size);
/// New ids, made by the sender.
std::vector<Arrival> some_arrivals(std::size_t count, std::size_t payload_size);
/// `256 B`, `4 KiB`.
std::string size_text(std::size_t bytes);

}  // namespace twinbox::bench
