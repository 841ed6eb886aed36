// Webhooks in: verified by their endpoint's scheme, then accepted.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "twinbox/intake.hpp"
#include "twinbox/signature.hpp"

namespace twinbox {

/// Where an id, a topic or a source is taken from.
struct ValueFrom {
  enum class Kind { header, pointer, fixed, body };

  Kind kind;
  std::string text = {};

  static ValueFrom header(std::string name) { return {Kind::header, std::move(name)}; }
  /// A JSON pointer (RFC 6901) into the body, such as `/data/id`; text or a whole number.
  static ValueFrom pointer(std::string pointer) { return {Kind::pointer, std::move(pointer)}; }
  static ValueFrom fixed(std::string text) { return {Kind::fixed, std::move(text)}; }
  /// The SHA-256 of the body, for senders without an id: the same bytes are the same message,
  /// whatever secret they are signed with.
  static ValueFrom body() { return {Kind::body}; }
  /// `header:<name>`, a JSON pointer, `fixed:<text>` or `body`. Throws std::invalid_argument.
  static ValueFrom parse(std::string_view text);
};

/// What some senders ask before they send. Nothing is answered that the endpoint does not name.
/// Slack's question needs no handshake: it is signed.

/// `OPTIONS` with `WebHook-Request-Origin`, as CloudEvents has it (Azure Event Grid). The answer
/// names the origin as it is written here, and the rate. No callback is called. Schemes: bearer,
/// hmac, standard_webhooks, ed25519.
struct CloudEventsHandshake {
  std::vector<std::string> origins;  ///< that may send; `*`: any
  int rate = 0;                      ///< requests a minute that are allowed; 0: any number
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

/// What is left out follows from the scheme:
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

/// `POST <prefix>/{endpoint}`. Not genuine: 401, and the reason in the log only
/// (`webhook_refused`). Genuine, but without its id or topic: 400, and nothing is written. Other
/// methods are taken where the handshake of an endpoint has them.
class WebhookIntake {
 public:
  /// Throws std::invalid_argument naming the endpoint and what it lacks.
  explicit WebhookIntake(std::vector<WebhookEndpoint> endpoints, IntakeOptions options = {},
                         std::string prefix = "/webhooks");
  ~WebhookIntake();
  WebhookIntake(WebhookIntake&&) noexcept;
  WebhookIntake& operator=(WebhookIntake&&) noexcept;

  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;

 private:
  struct Desk;
  [[nodiscard]] HttpResponse take(const Desk& desk, const HttpRequest& request) const;

  std::map<std::string, Desk, std::less<>> desks_;
  IntakeOptions options_;
  std::string prefix_;
};

}  // namespace twinbox
