#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/sha256.hpp"
#include "crypto/ed25519.hpp"
#include "crypto/hmac.hpp"
#include "twinbox/webhook.hpp"
#include "webhook/secret.hpp"

namespace twinbox {
namespace {

// A rotation needs no more secrets than this at once; each signature costs a comparison per secret.
constexpr std::size_t max_signatures = 16;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

Verification faulty(SignatureFault fault, std::string detail) {
  return {.fault = fault, .detail = std::move(detail), .signature = {}};
}

Verification missing(std::string_view header) {
  return faulty(SignatureFault::missing_header, "there is no header " + std::string{header});
}

Verification malformed(std::string_view header, std::string_view expected) {
  return faulty(SignatureFault::malformed_header,
                "header " + std::string{header} + ": expected " + std::string{expected});
}

std::optional<std::int64_t> parse_seconds(std::string_view text) {
  std::int64_t seconds = 0;
  // Twelve digits reach beyond every clock, and stay far from the end of an Instant.
  if (text.empty() || text.size() > 12 || text[0] == '-') return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return seconds;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

HashFunction function_of(MacHash hash) noexcept {
  switch (hash) {
    case MacHash::sha1: return HashFunction::sha1;
    case MacHash::sha256: return HashFunction::sha256;
    case MacHash::sha512: return HashFunction::sha512;
  }
  return HashFunction::sha256;
}

/// The schemes that differ in names only.
std::optional<HmacSignature> as_hmac(const SignatureScheme& scheme) {
  if (std::holds_alternative<StripeSignature>(scheme)) {
    return HmacSignature{
        .header = "Stripe-Signature", .signature_field = "v1", .timestamp_field = "t"};
  }
  if (std::holds_alternative<GitHubSignature>(scheme)) {
    return HmacSignature{.header = "X-Hub-Signature-256", .prefix = "sha256="};
  }
  if (std::holds_alternative<ShopifySignature>(scheme)) {
    return HmacSignature{.header = "X-Shopify-Hmac-Sha256", .encoding = SignatureEncoding::base64};
  }
  if (std::holds_alternative<SlackSignature>(scheme)) {
    return HmacSignature{.header = "X-Slack-Signature",
                         .prefix = "v0=",
                         .timestamp_header = "X-Slack-Request-Timestamp",
                         .signed_content = "v0:{timestamp}:{body}"};
  }
  if (const auto* generic = std::get_if<HmacSignature>(&scheme)) return *generic;
  return {};
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), with);
}

void check(const HmacSignature& scheme) {
  const auto refuse = [](const char* why) {
    throw std::invalid_argument(std::string{"signature scheme hmac: "} + why);
  };
  if (scheme.header.empty()) refuse("name the header that holds the signature");
  if (scheme.signature_field.empty() && !scheme.timestamp_field.empty()) {
    refuse("a timestamp field needs a signature field");
  }
  if (!scheme.timestamp_field.empty() && !scheme.timestamp_header.empty()) {
    refuse("the timestamp has a header or a field, not both");
  }
  if (!scheme.signature_field.empty() && !scheme.prefix.empty()) {
    refuse("a signature in a field has no prefix; leave one of them out");
  }
  const std::string_view content = scheme.signed_content;
  if (content.empty()) return;
  if (!content.ends_with("{body}")) refuse("the signed content must end with {body}");
  const bool has_time = content.find("{timestamp}") != std::string_view::npos;
  if (has_time == (scheme.timestamp_header.empty() && scheme.timestamp_field.empty())) {
    refuse("a timestamp and {timestamp} in the signed content go together");
  }
}

std::optional<std::string> decode(const HmacSignature& scheme, std::string_view text) {
  return scheme.encoding == SignatureEncoding::hex ? decode_hex(text) : decode_base64(text);
}

/// What the header of a signature looks like, for the log.
std::string expected(const HmacSignature& scheme) {
  const std::string code = scheme.encoding == SignatureEncoding::hex ? "<hex>" : "<base64>";
  if (scheme.signature_field.empty()) return scheme.prefix + code;
  std::string text;
  if (!scheme.timestamp_field.empty()) {
    text = scheme.timestamp_field + "=<seconds>" + scheme.separator;
  }
  return text + scheme.signature_field + "=" + code;
}

/// 64 hexadecimal digits, or as Standard Webhooks writes it.
std::string read_public_key(std::string_view text, const std::string& which) {
  auto bytes = decode_hex(text);
  if (bytes && bytes->size() == ed25519_key_size) return std::move(*bytes);
  if (text.starts_with("whpk_")) return read_secret(text, which).bytes;
  throw std::invalid_argument(which +
                              " must be an Ed25519 public key: 64 hexadecimal digits, or "
                              "whpk_ and base64 behind it");
}

}  // namespace

/// The parts of a request that a scheme verifies.
struct SignatureVerifier::SignatureParts {
  HashFunction function = HashFunction::sha256;
  std::string content;
  std::vector<std::string> codes;       ///< of HMAC
  std::vector<std::string> signatures;  ///< of Ed25519
  std::optional<std::int64_t> seconds = {};
};

/// Reads the headers of each scheme; the answer is a fault, or the parts have been filled.
struct SignatureVerifier::SignatureHeaderReader {
  const HttpRequest& request;
  SignatureParts& parts;

  std::optional<Verification> standard(const StandardWebhooks& scheme) const {
    const std::string id_name = scheme.header_prefix + "id";
    const std::string time_name = scheme.header_prefix + "timestamp";
    const std::string name = scheme.header_prefix + "signature";
    const auto id = request.headers.find(id_name);
    if (!id) return missing(id_name);
    const auto time = request.headers.find(time_name);
    if (!time) return missing(time_name);
    const auto header = request.headers.find(name);
    if (!header) return missing(name);
    parts.seconds = parse_seconds(*time);
    if (!parts.seconds) return malformed(time_name, "seconds since 1970");
    for (const std::string_view item : split(*header, ' ')) {
      if (parts.codes.size() + parts.signatures.size() == max_signatures) break;
      if (item.starts_with("v1,")) {
        if (auto code = decode_base64(item.substr(3))) parts.codes.push_back(std::move(*code));
      } else if (item.starts_with("v1a,")) {
        if (auto code = decode_base64(item.substr(4))) parts.signatures.push_back(std::move(*code));
      }
    }
    if (parts.codes.empty() && parts.signatures.empty()) {
      return malformed(name, "v1,<base64> or v1a,<base64>");
    }
    parts.content.append(*id).append(".").append(*time).append(".").append(request.body);
    return {};
  }

  /// Finds the signatures and the time among the fields of a header.
  void fields(const HmacSignature& scheme, std::string_view header, std::string& time) const {
    for (const std::string_view part : split(header, scheme.separator)) {
      const std::string_view item = trim(part);
      const std::size_t equals = std::min(item.find('='), item.size());
      const std::string_view name = item.substr(0, equals);
      const std::string_view value = item.substr(std::min(equals + 1, item.size()));
      if (name.empty()) continue;
      if (name == scheme.timestamp_field) time = value;
      if (name == scheme.signature_field && parts.codes.size() < max_signatures) {
        if (auto code = decode(scheme, value)) parts.codes.push_back(std::move(*code));
      }
    }
  }

  std::optional<Verification> hmac(const HmacSignature& scheme) const {
    parts.function = function_of(scheme.hash);
    const auto header = request.headers.find(scheme.header);
    if (!header) return missing(scheme.header);
    const bool has_fields = !scheme.signature_field.empty();
    std::string time;
    if (has_fields) {
      fields(scheme, *header, time);
    } else if (header->starts_with(scheme.prefix)) {
      auto code = decode(scheme, header->substr(scheme.prefix.size()));
      if (code) parts.codes.push_back(std::move(*code));
    }
    if (!scheme.timestamp_header.empty()) {
      const auto found = request.headers.find(scheme.timestamp_header);
      if (!found) return missing(scheme.timestamp_header);
      time = *found;
    }
    const bool has_time = !scheme.timestamp_header.empty() || !scheme.timestamp_field.empty();
    if (has_time) parts.seconds = parse_seconds(time);
    if (parts.codes.empty() || (!scheme.timestamp_field.empty() && !parts.seconds)) {
      return malformed(scheme.header, expected(scheme));
    }
    if (has_time && !parts.seconds) return malformed(scheme.timestamp_header, "seconds since 1970");
    std::string content = scheme.signed_content;
    if (content.empty()) content = has_time ? "{timestamp}.{body}" : "{body}";
    if (has_time) replace(content, "{timestamp}", time);
    content.resize(content.size() - std::string_view{"{body}"}.size());
    parts.content = std::move(content) + request.body;
    return {};
  }

  std::optional<Verification> ed25519(const Ed25519Signature& scheme) const {
    const auto header = request.headers.find(scheme.header);
    if (!header) return missing(scheme.header);
    const auto time = request.headers.find(scheme.timestamp_header);
    if (!time) return missing(scheme.timestamp_header);
    auto signature = decode_hex(*header);
    if (!signature) return malformed(scheme.header, "<hex>");
    parts.seconds = parse_seconds(*time);
    if (!parts.seconds) return malformed(scheme.timestamp_header, "seconds since 1970");
    parts.signatures.push_back(std::move(*signature));
    parts.content.append(*time).append(request.body);
    return {};
  }
};

SignatureVerifier::SignatureVerifier(SignatureScheme scheme, std::vector<std::string> secrets,
                                     std::chrono::seconds tolerance)
    : scheme_(std::move(scheme)), tolerance_(tolerance) {
  const std::string name = "signature scheme " + std::string{to_string(scheme_)};
  if (tolerance < std::chrono::seconds{1} || tolerance > std::chrono::hours{24}) {
    throw std::invalid_argument(name + ": the tolerance must lie between 1 s and 24 h");
  }
  if (const auto generic = as_hmac(scheme_)) check(*generic);
  if (std::holds_alternative<Unsigned>(scheme_)) {
    if (!secrets.empty()) throw std::invalid_argument(name + " takes no secret");
    return;
  }
  if (secrets.empty()) throw std::invalid_argument(name + " needs a secret");
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    const std::string which = name + ": secret " + std::to_string(i + 1);
    if (secrets[i].empty()) throw std::invalid_argument(which + " is empty");
    if (std::holds_alternative<Ed25519Signature>(scheme_)) {
      public_keys_.push_back(read_public_key(secrets[i], which));
      continue;
    }
    if (!std::holds_alternative<StandardWebhooks>(scheme_)) {
      keys_.push_back(std::move(secrets[i]));
      continue;
    }
    Secret secret = read_secret(secrets[i], which);
    if (secret.kind == Secret::Kind::private_key) {
      throw std::invalid_argument(which + " is a private key; verifying wants whpk_ or whsec_");
    }
    auto& target = secret.kind == Secret::Kind::hmac ? keys_ : public_keys_;
    target.push_back(std::move(secret.bytes));
  }
}

Verification SignatureVerifier::verify(const HttpRequest& request, Instant now) const {
  if (std::holds_alternative<Unsigned>(scheme_)) {
    if (request.loopback) return {};
    return faulty(SignatureFault::not_loopback, "unsigned, and not from this machine");
  }
  if (std::holds_alternative<BearerToken>(scheme_)) return verify_bearer(request);
  if (std::holds_alternative<GraphClientState>(scheme_)) return verify_client_state(request);
  if (std::holds_alternative<GitLabToken>(scheme_)) {
    const auto token = request.headers.find("X-Gitlab-Token");
    return token ? match_token(*token) : missing("X-Gitlab-Token");
  }
  SignatureParts parts;
  const SignatureHeaderReader read{request, parts};
  std::optional<Verification> fault;
  if (const auto* ed25519 = std::get_if<Ed25519Signature>(&scheme_)) {
    fault = read.ed25519(*ed25519);
  } else if (const auto* standard = std::get_if<StandardWebhooks>(&scheme_)) {
    fault = read.standard(*standard);
  } else {
    fault = read.hmac(*as_hmac(scheme_));
  }
  if (fault) return *fault;
  if (parts.seconds) {
    const Instant sent{std::chrono::seconds{*parts.seconds}};
    const auto off = std::chrono::duration_cast<std::chrono::seconds>(now - sent).count();
    const std::string allowed = " s, and " + std::to_string(tolerance_.count()) + " s are allowed";
    if (now - sent > tolerance_) {
      return faulty(SignatureFault::too_old, "it is late by " + std::to_string(off) + allowed);
    }
    if (sent - now > tolerance_) {
      return faulty(SignatureFault::too_new, "it is early by " + std::to_string(-off) + allowed);
    }
  }
  return match(parts);
}

Verification SignatureVerifier::match(const SignatureParts& parts) const {
  for (std::size_t i = 0; i < keys_.size() && !parts.codes.empty(); ++i) {
    const std::string expected = hmac(parts.function, keys_[i], parts.content);
    for (const std::string& code : parts.codes) {
      if (constant_time_equal(code, expected)) return {.signature = code, .secret = i};
    }
  }
  for (const std::string& key : public_keys_) {
    for (const std::string& signature : parts.signatures) {
      if (ed25519_verify(key, parts.content, signature)) return {.signature = signature};
    }
  }
  const std::size_t tried = keys_.size() + public_keys_.size();
  return faulty(SignatureFault::no_match,
                "no secret made this signature (" + std::to_string(tried) + " tried)");
}

Verification SignatureVerifier::verify_bearer(const HttpRequest& request) const {
  const auto header = request.headers.find("Authorization");
  if (!header) return missing("Authorization");
  constexpr std::string_view word = "bearer ";
  const bool bearer = header->size() > word.size() &&
                      std::ranges::equal(header->substr(0, word.size()), word, {}, [](char c) {
                        return c >= 'A' && c <= 'Z' ? char(c + 32) : c;
                      });
  if (!bearer) return malformed("Authorization", "Bearer <token>");
  return match_token(trim(header->substr(word.size())));
}

Verification SignatureVerifier::verify_client_state(const HttpRequest& request) const {
  namespace json = boost::json;
  const auto refuse = [](const char* why) {
    return faulty(SignatureFault::no_match, std::string{"the body is no list of notifications, "} +
                                                "each with its clientState: " + why);
  };
  json::parse_options options;
  options.max_depth = max_json_depth;
  json::error_code error;
  const json::value body =
      json::parse({request.body.data(), request.body.size()}, error, {}, options);
  if (error) return refuse("it is no JSON");
  const json::value* list = body.find_pointer("/value", error);
  if (list == nullptr || !list->is_array() || list->get_array().empty()) {
    return refuse("/value is no list, or empty");
  }
  for (const json::value& one : list->get_array()) {
    const json::value* state = one.find_pointer("/clientState", error);
    if (state == nullptr || !state->is_string()) return refuse("one has none");
    Verification verification = match_token(state->get_string());
    if (!verification.genuine()) return verification;
  }
  return {};
}

Verification SignatureVerifier::match_token(std::string_view offered) const {
  // Digests have one length, so that the time does not reveal the token's.
  const Sha256 given = sha256(offered);
  bool found = false;
  for (const std::string& token : keys_) {
    const Sha256 known = sha256(token);
    found |= constant_time_equal({reinterpret_cast<const char*>(known.data()), known.size()},
                                 {reinterpret_cast<const char*>(given.data()), given.size()});
  }
  if (found) return {};
  return faulty(SignatureFault::no_match,
                "unknown token (" + std::to_string(keys_.size()) + " tried)");
}

std::string_view to_string(const SignatureScheme& scheme) noexcept {
  return std::visit(Overloaded{[](const StripeSignature&) { return "stripe"; },
                               [](const GitHubSignature&) { return "github"; },
                               [](const StandardWebhooks&) { return "standard_webhooks"; },
                               [](const SlackSignature&) { return "slack"; },
                               [](const ShopifySignature&) { return "shopify"; },
                               [](const GitLabToken&) { return "gitlab"; },
                               [](const HmacSignature&) { return "hmac"; },
                               [](const Ed25519Signature&) { return "ed25519"; },
                               [](const GraphClientState&) { return "graph"; },
                               [](const BearerToken&) { return "bearer"; },
                               [](const Unsigned&) { return "none"; }},
                    scheme);
}

SignatureScheme signature_scheme(std::string_view name) {
  for (const SignatureScheme& scheme :
       {SignatureScheme{StripeSignature{}}, SignatureScheme{GitHubSignature{}},
        SignatureScheme{StandardWebhooks{}}, SignatureScheme{SlackSignature{}},
        SignatureScheme{ShopifySignature{}}, SignatureScheme{GitLabToken{}},
        SignatureScheme{HmacSignature{}}, SignatureScheme{Ed25519Signature{}},
        SignatureScheme{GraphClientState{}}, SignatureScheme{BearerToken{}},
        SignatureScheme{Unsigned{}}}) {
    if (to_string(scheme) == name) return scheme;
  }
  throw std::invalid_argument("there is no signature scheme '" + std::string{name} +
                              "'; there are: stripe, github, standard_webhooks, slack, shopify, "
                              "gitlab, hmac, ed25519, graph, bearer, none");
}

std::string_view to_string(SignatureFault fault) noexcept {
  switch (fault) {
    case SignatureFault::missing_header: return "missing_header";
    case SignatureFault::malformed_header: return "malformed_header";
    case SignatureFault::too_old: return "too_old";
    case SignatureFault::too_new: return "too_new";
    case SignatureFault::no_match: return "no_match";
    case SignatureFault::not_loopback: return "not_loopback";
  }
  return "unknown";
}

}  // namespace twinbox
