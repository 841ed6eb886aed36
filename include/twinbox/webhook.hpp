// Incoming webhooks: verified by their endpoint's scheme, then accepted.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "twinbox/environment.hpp"
#include "twinbox/http.hpp"
#include "twinbox/intake.hpp"

namespace twinbox {

// Signature schemes of webhook senders: signatures are verified over the received bytes, in
// constant time. Also signs webhooks by Standard Webhooks.

struct StripeSignature {};   ///< `Stripe-Signature: t=…,v1=…`
struct GitHubSignature {};   ///< `X-Hub-Signature-256: sha256=…`
struct SlackSignature {};    ///< `X-Slack-Signature: v0=…`, `X-Slack-Request-Timestamp`
struct ShopifySignature {};  ///< `X-Shopify-Hmac-Sha256`
struct GitLabToken {};       ///< `X-Gitlab-Token`; the secrets are the tokens

/// Secrets are `whsec_…` (HMAC, `v1`) or `whpk_…` (an Ed25519 public key, `v1a`).
struct StandardWebhooks {
  std::string header_prefix = "webhook-";  ///< of `…id`, `…timestamp` and `…signature`
};

enum class MacHash { sha1, sha256, sha512 };
enum class SignatureEncoding { hex, base64 };

/// Any other sender's.
struct HmacSignature {
  std::string header;
  MacHash hash = MacHash::sha256;
  SignatureEncoding encoding = SignatureEncoding::hex;
  std::string prefix = {};            ///< before the signature, such as `sha256=`
  std::string timestamp_header = {};  ///< seconds since 1970; empty: there is none
  /// For a header with fields, such as `t=…,v1=…`: the field of the signature, which may occur
  /// several times, the field of the timestamp, and the separator. Empty: no fields.
  std::string signature_field = {};
  std::string timestamp_field = {};
  char separator = ',';
  /// The signed text. Empty: `{body}`, or `{timestamp}.{body}` when there is a timestamp.
  std::string signed_content = {};
};

/// Timestamp and body, signed with Ed25519, in hex. The defaults are Discord's. Secrets are public
/// keys: 64 hexadecimal digits, or `whpk_…`.
struct Ed25519Signature {
  std::string header = "X-Signature-Ed25519";
  std::string timestamp_header = "X-Signature-Timestamp";
};

/// Microsoft Graph signs nothing: every notification in `/value` of the body has a `clientState`,
/// and the secrets are the states that the subscriptions were created with.
struct GraphClientState {};

struct BearerToken {};  ///< `Authorization: Bearer …`; the secrets are the tokens
struct Unsigned {};     ///< any sender, but from this machine only

using SignatureScheme = std::variant<StripeSignature, GitHubSignature, StandardWebhooks,
                                     SlackSignature, ShopifySignature, GitLabToken, HmacSignature,
                                     Ed25519Signature, GraphClientState, BearerToken, Unsigned>;

/// `stripe`, `github`, `standard_webhooks`, `slack`, `shopify`, `gitlab`, `hmac`, `ed25519`,
/// `graph`, `bearer`, `none`.
std::string_view to_string(const SignatureScheme& scheme) noexcept;
/// Throws std::invalid_argument listing the known schemes. `hmac` still needs its header.
SignatureScheme signature_scheme(std::string_view name);

enum class SignatureFault {
  missing_header,
  malformed_header,
  too_old,
  too_new,
  no_match,      ///< none of the secrets made it
  not_loopback,  ///< unsigned, and not from this machine
};

std::string_view to_string(SignatureFault fault) noexcept;

struct Verification {
  std::optional<SignatureFault> fault = {};  ///< empty: it is genuine
  std::string detail = {};     ///< which header, how late; for your log, not for the sender
  std::string signature = {};  ///< the matching bytes; empty if the scheme has none
  std::size_t secret = 0;      ///< of an HMAC: the index of the matching HMAC secret

  [[nodiscard]] bool genuine() const noexcept { return !fault; }
};

inline constexpr std::chrono::seconds default_tolerance = std::chrono::minutes{5};

/// Thread-safe.
class SignatureVerifier {
 public:
  /// Any one of `secrets` matches, so that you can rotate them. Timestamps may be off by
  /// `tolerance` in both directions. Throws std::invalid_argument naming the scheme and the number
  /// of the secret that does not fit it; never the secret.
  SignatureVerifier(SignatureScheme scheme, std::vector<std::string> secrets,
                    std::chrono::seconds tolerance = default_tolerance);

  [[nodiscard]] Verification verify(const HttpRequest& request, Instant now) const;
  [[nodiscard]] const SignatureScheme& scheme() const noexcept { return scheme_; }

 private:
  struct SignatureParts;
  struct SignatureHeaderReader;
  [[nodiscard]] Verification match(const SignatureParts& parts) const;
  [[nodiscard]] Verification verify_bearer(const HttpRequest& request) const;
  [[nodiscard]] Verification verify_client_state(const HttpRequest& request) const;
  [[nodiscard]] Verification match_token(std::string_view token) const;

  SignatureScheme scheme_;
  std::chrono::seconds tolerance_;
  std::vector<std::string> keys_;         ///< of HMAC, or tokens
  std::vector<std::string> public_keys_;  ///< of Ed25519
};

/// Signs webhooks by Standard Webhooks, with every secret at once. Thread-safe.
class WebhookSigner {
 public:
  /// `whsec_…` (HMAC) or `whsk_…` (Ed25519). Throws as SignatureVerifier does.
  explicit WebhookSigner(const std::vector<std::string>& secrets);

  /// `webhook-id`, `webhook-timestamp` and `webhook-signature`. Throws std::invalid_argument when
  /// `id` cannot stand in a header.
  [[nodiscard]] HttpHeaders sign(std::string_view id, Instant at, std::string_view body) const;

 private:
  std::vector<std::string> keys_;
  std::vector<std::string> seeds_;  ///< of Ed25519
};

/// A new secret for Standard Webhooks: `whsec_` and 32 random bytes.
std::string make_webhook_secret();

/// Runs in a time that depends on the lengths alone.
bool constant_time_equal(std::string_view a, std::string_view b) noexcept;

/// The origin of an id, a topic or a source.
struct ValueFrom {
  enum class Kind { header, pointer, fixed, body };

  Kind kind;
  std::string text = {};

  static ValueFrom header(std::string name) { return {Kind::header, std::move(name)}; }
  /// A JSON pointer (RFC 6901) into the body, such as `/data/id`; text or a whole number.
  static ValueFrom pointer(std::string pointer) { return {Kind::pointer, std::move(pointer)}; }
  static ValueFrom fixed(std::string text) { return {Kind::fixed, std::move(text)}; }
  /// The SHA-256 of the body, for senders without an id: the same bytes are the same message,
  /// whichever secret they are signed with.
  static ValueFrom body() { return {Kind::body}; }
  /// `header:<name>`, a JSON pointer, `fixed:<text>` or `body`. Throws std::invalid_argument.
  static ValueFrom parse(std::string_view text);
};

/// The verification requests that some senders make first. Only those that the endpoint configures
/// are answered. Slack's needs no handshake: it is signed.

/// `OPTIONS` with `WebHook-Request-Origin`, as CloudEvents defines it (Azure Event Grid). The
/// answer has the origin as configured here, and the rate. No callback is called. Schemes: bearer,
/// hmac, standard_webhooks, ed25519.
struct CloudEventsHandshake {
  std::vector<std::string> origins;  ///< that may send; `*`: any
  int rate = 0;                      ///< allowed requests a minute; 0: any number
};
/// `GET` with `hub.verify_token`, any one of these, and `hub.challenge`, which is the answer
/// (WhatsApp, Facebook, Instagram). Scheme: hmac.
struct MetaHandshake {
  std::vector<std::string> verify_tokens;
};
/// A signed `endpoint.url_validation`: the answer is its token and the HMAC of it, by the secret
/// that signed the request. Scheme: hmac with SHA-256.
struct ZoomHandshake {};
/// `POST` with `?validationToken=`, which is the answer, as text/plain. Scheme: graph.
struct GraphHandshake {};

using Handshake = std::variant<std::monostate, CloudEventsHandshake, MetaHandshake, ZoomHandshake,
                               GraphHandshake>;

/// Defaults follow from the scheme:
///
/// | scheme            | id                    | topic             |
/// |-------------------|-----------------------|-------------------|
/// | stripe            | `/id`                 | `/type`           |
/// | github            | `X-GitHub-Delivery`   | `X-GitHub-Event`  |
/// | standard_webhooks | `webhook-id`          | `/type`           |
/// | slack             | `/event_id`           | `/event/type`     |
/// | shopify           | `X-Shopify-Webhook-Id`| `X-Shopify-Topic` |
/// | gitlab            | `Idempotency-Key`     | `X-Gitlab-Event`  |
/// | hmac, ed25519,    | the body's SHA-256    | the name          |
/// | graph             |                       |                   |
/// | bearer, none      | `Idempotency-Key`     | the name          |
///
/// The source is the endpoint's name.
struct WebhookEndpoint {
  std::string name;  ///< the last piece of its path; letters, digits, `-`, `_` and `.`
  SignatureScheme scheme;
  std::vector<std::string> secrets;
  AcceptCall accept;
  std::optional<ValueFrom> id = {};
  std::optional<ValueFrom> topic = {};
  std::optional<ValueFrom> source = {};
  std::string topic_prefix = {};  ///< such as `github.`
  std::chrono::seconds tolerance = default_tolerance;
  Handshake handshake = {};
};

/// `POST <prefix>/{endpoint}`. Not genuine: 401, with the reason in the log only
/// (`webhook_refused`). Genuine, but without its id or topic: 400, and nothing is stored. Other
/// methods are accepted for the handshake of an endpoint.
class WebhookIntake {
 public:
  /// Throws std::invalid_argument naming the endpoint and the missing option.
  explicit WebhookIntake(std::vector<WebhookEndpoint> endpoints, IntakeOptions options = {},
                         std::string prefix = "/webhooks");
  ~WebhookIntake();
  WebhookIntake(WebhookIntake&&) noexcept;
  WebhookIntake& operator=(WebhookIntake&&) noexcept;

  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;

 private:
  struct Endpoint;
  [[nodiscard]] HttpResponse take(const Endpoint& endpoint, const HttpRequest& request) const;

  std::map<std::string, Endpoint, std::less<>> endpoints_;
  IntakeOptions options_;
  std::string prefix_;
};

}  // namespace twinbox
