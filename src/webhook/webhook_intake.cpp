#include <algorithm>
#include <boost/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/sha256.hpp"
#include "intake/request.hpp"
#include "twinbox/webhook.hpp"
#include "webhook/handshake.hpp"

namespace twinbox {
namespace {

namespace json = boost::json;

/// The defaults of each scheme, as the header's table has them.
std::pair<ValueFrom, ValueFrom> id_and_topic_of(const SignatureScheme& scheme,
                                                const std::string& name) {
  if (std::holds_alternative<StripeSignature>(scheme)) {
    return {ValueFrom::pointer("/id"), ValueFrom::pointer("/type")};
  }
  if (std::holds_alternative<GitHubSignature>(scheme)) {
    return {ValueFrom::header("X-GitHub-Delivery"), ValueFrom::header("X-GitHub-Event")};
  }
  if (const auto* standard = std::get_if<StandardWebhooks>(&scheme)) {
    return {ValueFrom::header(standard->header_prefix + "id"), ValueFrom::pointer("/type")};
  }
  if (std::holds_alternative<SlackSignature>(scheme)) {
    return {ValueFrom::pointer("/event_id"), ValueFrom::pointer("/event/type")};
  }
  if (std::holds_alternative<ShopifySignature>(scheme)) {
    return {ValueFrom::header("X-Shopify-Webhook-Id"), ValueFrom::header("X-Shopify-Topic")};
  }
  if (std::holds_alternative<GitLabToken>(scheme)) {
    return {ValueFrom::header("Idempotency-Key"), ValueFrom::header("X-Gitlab-Event")};
  }
  if (std::holds_alternative<HmacSignature>(scheme) ||
      std::holds_alternative<Ed25519Signature>(scheme) ||
      std::holds_alternative<GraphClientState>(scheme)) {
    return {ValueFrom::body(), ValueFrom::fixed(name)};
  }
  return {ValueFrom::header("Idempotency-Key"), ValueFrom::fixed(name)};
}

std::string digest(std::string_view text) {
  const Sha256 bytes = sha256(text);
  return hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// A genuine request, its body parsed at most once.
class BodyReader {
 public:
  explicit BodyReader(const HttpRequest& request) : request_(request) {}

  /// `what`: for the answer when the value is missing.
  std::string read(const ValueFrom& from, std::string_view what) {
    switch (from.kind) {
      case ValueFrom::Kind::fixed: return from.text;
      case ValueFrom::Kind::body: return digest(request_.body);
      case ValueFrom::Kind::header: {
        const auto value = request_.headers.find(from.text);
        if (!value) refuse(what, "there is no header " + from.text);
        if (to_lower(from.text) == "idempotency-key") return idempotency_key(*value);
        return std::string{*value};
      }
      case ValueFrom::Kind::pointer: break;
    }
    const json::value* found = at(from.text);
    if (body().is_null()) refuse(what, "the body is no JSON, and it is expected at " + from.text);
    if (found == nullptr) refuse(what, "the body has nothing at " + from.text);
    if (const auto* text = found->if_string()) return {text->data(), text->size()};
    if (found->is_int64() || found->is_uint64()) return json::serialize(*found);
    refuse(what, "the value at " + from.text + " is neither text nor a whole number");
  }

 private:
  [[noreturn]] static void refuse(std::string_view what, const std::string& why) {
    throw RequestError(400, "no " + std::string{what} + ": " + why);
  }

  const json::value* at(std::string_view pointer) {
    json::error_code error;
    return body().find_pointer({pointer.data(), pointer.size()}, error);
  }

  /// Null for what is no JSON.
  const json::value& body() {
    if (!parsed_) {
      json::parse_options options;
      options.max_depth = max_json_depth;
      json::error_code error;
      parsed_ = json::parse({request_.body.data(), request_.body.size()}, error, {}, options);
      if (error) parsed_ = json::value{};
    }
    return *parsed_;
  }

  const HttpRequest& request_;
  std::optional<json::value> parsed_;
};

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

/// RFC 6901; the whole body is not a valid value here. The parser detects a bad escape only if the
/// document has the part before it.
bool is_pointer(std::string_view text) {
  if (!text.starts_with('/')) return false;
  for (std::size_t i = text.find('~'); i != std::string_view::npos; i = text.find('~', i + 1)) {
    if (i + 1 == text.size() || (text[i + 1] != '0' && text[i + 1] != '1')) return false;
  }
  return true;
}

void check(const ValueFrom& from, const std::string& which) {
  if (from.kind == ValueFrom::Kind::body) return;
  if (from.text.empty() && from.kind != ValueFrom::Kind::pointer) {
    throw std::invalid_argument(which + " is empty");
  }
  if (from.kind == ValueFrom::Kind::pointer && !is_pointer(from.text)) {
    throw std::invalid_argument(which + ": '" + from.text +
                                "' is no JSON pointer such as /data/id");
  }
}

}  // namespace

ValueFrom ValueFrom::parse(std::string_view text) {
  if (text == "body") return body();
  if (text.starts_with('/')) return pointer(std::string{text});
  for (const auto& [word, kind] :
       {std::pair{std::string_view{"header:"}, Kind::header}, {"fixed:", Kind::fixed}}) {
    if (text.starts_with(word) && text.size() > word.size()) {
      return {kind, std::string{text.substr(word.size())}};
    }
  }
  throw std::invalid_argument("'" + std::string{text} +
                              "' says not where to look: write header:<name>, a JSON pointer such "
                              "as /data/id, fixed:<text> or body");
}

/// An endpoint, ready for requests.
struct WebhookIntake::Endpoint {
  explicit Endpoint(WebhookEndpoint&& of)
      : name(std::move(of.name)),
        handshake(std::move(of.handshake)),
        secrets(std::holds_alternative<ZoomHandshake>(handshake) ? of.secrets
                                                                 : std::vector<std::string>{}),
        verifier(std::move(of.scheme), std::move(of.secrets), of.tolerance),
        accept(std::move(of.accept)),
        id(of.id ? *of.id : id_and_topic_of(verifier.scheme(), name).first),
        topic(of.topic ? *of.topic : id_and_topic_of(verifier.scheme(), name).second),
        source(of.source ? *of.source : ValueFrom::fixed(name)),
        topic_prefix(std::move(of.topic_prefix)) {
    check(id, "its id");
    check(topic, "its topic");
    check(source, "its source");
    check_handshake(handshake, verifier.scheme());
    if (!accept) throw std::invalid_argument("it has no target: say where it is accepted");
  }

  /// The source that belongs to this endpoint.
  [[nodiscard]] const std::string& own_source() const {
    return source.kind == ValueFrom::Kind::fixed ? source.text : name;
  }

  std::string name;
  Handshake handshake;
  std::vector<std::string> secrets;  ///< of Zoom, whose answer is made with them
  SignatureVerifier verifier;
  AcceptCall accept;
  ValueFrom id, topic, source;
  std::string topic_prefix;
};

WebhookIntake::WebhookIntake(std::vector<WebhookEndpoint> endpoints, IntakeOptions options,
                             std::string prefix)
    : options_(std::move(options)), prefix_(std::move(prefix)) {
  for (WebhookEndpoint& endpoint : endpoints) {
    const std::string name = endpoint.name;
    const std::string which = "webhook endpoint '" + name + "': ";
    if (!is_name(name)) {
      throw std::invalid_argument(which + "its name may have letters, digits, -, _ and . only");
    }
    try {
      if (!endpoints_.try_emplace(name, Endpoint{std::move(endpoint)}).second) {
        throw std::invalid_argument("this name is in use; choose another one");
      }
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(which + error.what());
    }
  }
  for (const auto& [name, endpoint] : endpoints_)
    options_.reserved_sources.insert(endpoint.own_source());
}

WebhookIntake::~WebhookIntake() = default;
WebhookIntake::WebhookIntake(WebhookIntake&&) noexcept = default;
WebhookIntake& WebhookIntake::operator=(WebhookIntake&&) noexcept = default;

HttpResponse WebhookIntake::handle(const HttpRequest& request) const {
  return response_or_problem(options_, "accept", [&] {
    const auto segments = path_segments(request, prefix_, 1);
    const auto endpoint = endpoints_.find(segments[0]);
    if (endpoint == endpoints_.end())
      throw RequestError(404, "there is no webhook endpoint of this name");
    const Handshake& handshake = endpoint->second.handshake;
    if (auto answer = answer_unsigned_handshake(handshake, request)) return std::move(*answer);
    if (request.method != "POST") {
      const std::string allowed = "POST" + std::string{handshake_methods(handshake)};
      HttpResponse refusal =
          problem(405, "Method Not Allowed", "only " + allowed + " is taken here");
      refusal.headers.add("Allow", allowed);
      return refusal;
    }
    require_post(request, options_);
    return take(endpoint->second, request);
  });
}

HttpResponse WebhookIntake::take(const Endpoint& endpoint, const HttpRequest& request) const {
  const Verification verification = endpoint.verifier.verify(request, now_of(options_));
  if (!verification.genuine()) {
    options_.environment.write(LogLevel::warning, "webhook_refused",
                               {{"endpoint", endpoint.name},
                                {"scheme", to_string(endpoint.verifier.scheme())},
                                {"fault", to_string(*verification.fault)},
                                {"detail", verification.detail}});
    throw RequestError(401, "it could not be verified who sent this");
  }
  const std::string_view secret =
      endpoint.secrets.empty() ? "" : std::string_view{endpoint.secrets.at(verification.secret)};
  if (auto answer = answer_signed_handshake(endpoint.handshake, endpoint.verifier.scheme(),
                                            request.body, secret)) {
    return std::move(*answer);
  }
  BodyReader reader{request};
  Arrival arrival{.source = Source{reader.read(endpoint.source, "source")},
                  .id = MessageId{reader.read(endpoint.id, "id")},
                  .topic = Topic{endpoint.topic_prefix + reader.read(endpoint.topic, "topic")},
                  .payload = request.body};
  if (arrival.source.view() != endpoint.own_source()) {
    check_source(arrival.source, request, options_);
  }
  // Only what the signature vouches for is taken from the request: no due time, no partition key.
  arrival.extras.headers = properties_of(request, options_, {.own = {{"endpoint", endpoint.name}}});
  if (const auto type = request.headers.find("Content-Type")) {
    arrival.extras.content_type = std::string{*type};
  }
  arrival.extras.hash = ContentHash::of(arrival.payload);
  return accept_and_respond(endpoint.accept, std::move(arrival));
}

}  // namespace twinbox
