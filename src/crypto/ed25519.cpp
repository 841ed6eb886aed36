#include "crypto/ed25519.hpp"

#include <memory>
#include <openssl/evp.h>
#include <stdexcept>

namespace twinbox {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

const unsigned char* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) noexcept {
  return reinterpret_cast<unsigned char*>(text.data());
}

[[noreturn]] void refuse() { throw std::runtime_error("Ed25519: the crypto library refused"); }

void check_size(std::string_view key) {
  if (key.size() != ed25519_key_size) {
    throw std::invalid_argument("an Ed25519 key has 32 bytes, not " + std::to_string(key.size()));
  }
}

Key private_key(std::string_view seed) {
  check_size(seed);
  Key key{EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(seed), seed.size())};
  if (!key) refuse();
  return key;
}

}  // namespace

std::string ed25519_sign(std::string_view seed, std::string_view data) {
  const Key key = private_key(seed);
  const Context context{EVP_MD_CTX_new()};
  std::string signature(ed25519_signature_size, '\0');
  std::size_t length = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), bytes_of(signature), &length, bytes_of(data), data.size()) !=
          1) {
    refuse();
  }
  return signature;
}

std::string ed25519_public_key(std::string_view seed) {
  const Key key = private_key(seed);
  std::string bytes(ed25519_key_size, '\0');
  std::size_t length = bytes.size();
  if (EVP_PKEY_get_raw_public_key(key.get(), bytes_of(bytes), &length) != 1) refuse();
  return bytes;
}

bool ed25519_verify(std::string_view public_key, std::string_view data,
                    std::string_view signature) {
  check_size(public_key);
  if (signature.size() != ed25519_signature_size) return false;
  const Key key{EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(public_key),
                                            public_key.size())};
  const Context context{EVP_MD_CTX_new()};
  if (!key || !context ||
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1) {
    refuse();
  }
  return EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(data),
                          data.size()) == 1;
}

}  // namespace twinbox
