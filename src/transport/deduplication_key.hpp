// The key by which a receiver recognises a redelivered message.
#pragma once

#include <string>

#include "core/encoding.hpp"
#include "core/sha256.hpp"
#include "event/attribute.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

/// The id alone where the message has no source, else source and id: ids are unique per source
/// only. Visible ASCII with at most one blank. Above 255 characters, which receivers may refuse:
/// its hash.
inline std::string deduplication_key(const Message& message) {
  std::string key = percent_encode(message.id.view(), "%");
  if (message.source != Source::none()) {
    key = percent_encode(message.source.view(), "%") + " " + key;
  }
  if (key.size() <= 255) return key;
  const Sha256 hash = sha256(key);
  return "sha256:" + hex({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

}  // namespace twinbox
