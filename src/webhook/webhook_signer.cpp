#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/encoding.hpp"
#include "crypto/ed25519.hpp"
#include "crypto/hmac.hpp"
#include "twinbox/webhook.hpp"
#include "webhook/secret.hpp"

namespace twinbox {
namespace {

constexpr std::string_view hmac_prefix = "whsec_";
constexpr std::string_view public_prefix = "whpk_";
constexpr std::string_view private_prefix = "whsk_";

std::string seed_of(std::string bytes, const std::string& which) {
  // Some senders append the public half to the seed.
  if (bytes.size() == 2 * ed25519_key_size) {
    const std::string half = bytes.substr(ed25519_key_size);
    bytes.resize(ed25519_key_size);
    if (ed25519_public_key(bytes) != half) {
      throw std::invalid_argument(which + ": the two halves of the key do not belong together");
    }
  }
  return bytes;
}

}  // namespace

Secret read_secret(std::string_view text, const std::string& which) {
  Secret::Kind kind = Secret::Kind::hmac;
  if (text.starts_with(hmac_prefix)) {
    text.remove_prefix(hmac_prefix.size());
  } else if (text.starts_with(public_prefix)) {
    text.remove_prefix(public_prefix.size());
    kind = Secret::Kind::public_key;
  } else if (text.starts_with(private_prefix)) {
    text.remove_prefix(private_prefix.size());
    kind = Secret::Kind::private_key;
  }
  auto bytes = decode_base64(text);
  if (!bytes || bytes->empty()) {
    throw std::invalid_argument(which + " must be whsec_, whpk_ or whsk_ and base64 behind it");
  }
  if (kind == Secret::Kind::private_key) *bytes = seed_of(std::move(*bytes), which);
  if (kind != Secret::Kind::hmac && bytes->size() != ed25519_key_size) {
    throw std::invalid_argument(which + " must hold an Ed25519 key of 32 bytes, not " +
                                std::to_string(bytes->size()));
  }
  return {kind, std::move(*bytes)};
}

WebhookSigner::WebhookSigner(const std::vector<std::string>& secrets) {
  const std::string name = "signature scheme standard_webhooks";
  if (secrets.empty()) throw std::invalid_argument(name + " needs a secret");
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    const std::string which = name + ": secret " + std::to_string(i + 1);
    Secret secret = read_secret(secrets[i], which);
    if (secret.kind == Secret::Kind::public_key) {
      throw std::invalid_argument(which + " is a public key; signing wants whsk_ or whsec_");
    }
    auto& place = secret.kind == Secret::Kind::hmac ? keys_ : seeds_;
    place.push_back(std::move(secret.bytes));
  }
}

HttpHeaders WebhookSigner::sign(std::string_view id, Instant at, std::string_view body) const {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; };
  if (id.empty() || std::ranges::any_of(id, is_control)) {
    throw std::invalid_argument(
        "webhook-id: an empty id, or one with control characters, cannot "
        "stand in a header");
  }
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  const std::string time = std::to_string(seconds);
  std::string content{id};
  content.append(".").append(time).append(".").append(body);
  std::string signatures;
  const auto add = [&](std::string_view version, std::string_view bytes) {
    if (!signatures.empty()) signatures += ' ';
    signatures.append(version).append(",").append(base64(bytes));
  };
  for (const std::string& key : keys_) add("v1", hmac(HashFunction::sha256, key, content));
  for (const std::string& seed : seeds_) add("v1a", ed25519_sign(seed, content));
  return {{"webhook-id", std::string{id}},
          {"webhook-timestamp", time},
          {"webhook-signature", std::move(signatures)}};
}

std::string make_webhook_secret() { return std::string{hmac_prefix} + base64(random_bytes(32)); }

}  // namespace twinbox
