#include "core/sha256.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

ContentHash ContentHash::of(std::string_view content) {
  const Sha256 digest = sha256(content);
  return {std::string{digest.begin(), digest.end()}, "sha256"};
}

}  // namespace twinbox
