#include "crypto/hmac.hpp"

#include <limits>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdexcept>

namespace twinbox {
namespace {

const EVP_MD* digest_of(HashFunction function) noexcept {
  switch (function) {
    case HashFunction::sha1: return EVP_sha1();
    case HashFunction::sha256: return EVP_sha256();
    case HashFunction::sha512: return EVP_sha512();
  }
  return nullptr;
}

}  // namespace

std::string hmac(HashFunction function, std::string_view key, std::string_view data) {
  if (key.size() > std::numeric_limits<int>::max()) throw std::runtime_error("HMAC: key too long");
  std::string code(EVP_MAX_MD_SIZE, '\0');
  unsigned int length = 0;
  // A key of length 0 is allowed, a null pointer is not.
  const char* key_bytes = key.empty() ? "" : key.data();
  if (::HMAC(digest_of(function), key_bytes, static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(data.data()), data.size(),
             reinterpret_cast<unsigned char*>(code.data()), &length) == nullptr) {
    throw std::runtime_error("HMAC: the crypto library refused to compute it");
  }
  code.resize(length);
  return code;
}

bool constant_time_equal(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  if (count > std::numeric_limits<int>::max()) throw std::runtime_error("too many random bytes");
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1) {
    throw std::runtime_error("the system's source of random bytes does not answer");
  }
  return bytes;
}

}  // namespace twinbox
