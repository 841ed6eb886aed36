#include "webhook/handshake.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/sha256.hpp"
#include "crypto/hmac.hpp"
#include "intake/request.hpp"

namespace twinbox {
namespace {

namespace json = boost::json;

constexpr std::size_t longest_token = 1024;

bool is_printable(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

/// The text is external, so no browser may treat it as a page.
HttpResponse echo_token(std::string_view what, std::string token) {
  if (token.empty() || token.size() > longest_token || !is_printable(token)) {
    throw RequestError(400, std::string{what} + ": expected 1 to " + std::to_string(longest_token) +
                                " printable ASCII characters");
  }
  return {200,
          {{"Content-Type", "text/plain"},
           {"X-Content-Type-Options", "nosniff"},
           {"Cache-Control", "no-store"}},
          std::move(token)};
}

std::string_view name_of(const Handshake& handshake) noexcept {
  constexpr std::string_view names[] = {"", "cloudevents", "meta", "zoom", "graph"};
  return names[handshake.index()];
}

/// Digests have one length, so that the time does not reveal the token's.
bool is_one_of(std::string_view given, const std::vector<std::string>& tokens) {
  const auto digest = [](std::string_view text) {
    const Sha256 bytes = sha256(text);
    return std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  };
  bool found = false;
  for (const std::string& token : tokens) {
    found |= constant_time_equal(digest(token), digest(given));
  }
  return found;
}

/// From the configuration, never from the request.
HttpResponse allow_origin(const CloudEventsHandshake& handshake, const HttpRequest& request) {
  const auto origin = request.headers.find("WebHook-Request-Origin");
  if (!origin) throw RequestError(400, "there is no header WebHook-Request-Origin");
  const auto allowed = std::ranges::find_if(handshake.origins, [&](const std::string& one) {
    return one == "*" || to_lower(one) == to_lower(*origin);
  });
  if (allowed == handshake.origins.end()) {
    throw RequestError(403, "this origin may not send here; the endpoint's origins name others");
  }
  const std::string rate = handshake.rate == 0 ? "*" : std::to_string(handshake.rate);
  return {200,
          {{"Allow", "POST, OPTIONS"},
           {"WebHook-Allowed-Origin", *allowed},
           {"WebHook-Allowed-Rate", rate}}};
}

HttpResponse answer_challenge(const MetaHandshake& handshake, const HttpRequest& request) {
  const std::string given = query_value(request, "hub.verify_token").value_or("");
  if (query_value(request, "hub.mode") != "subscribe" ||
      !is_one_of(given, handshake.verify_tokens)) {
    throw RequestError(403, "expected hub.mode=subscribe and the verify token of this endpoint");
  }
  return echo_token("hub.challenge", query_value(request, "hub.challenge").value_or(""));
}

/// Null unless it is JSON with these two texts, the first as expected.
const json::string* find_challenge(const json::value& body, const char* kind,
                                   std::string_view expected, const char* token) {
  json::error_code error;
  const json::value* found = body.find_pointer(kind, error);
  if (found == nullptr || !found->is_string() ||
      std::string_view{found->get_string()} != expected) {
    return nullptr;
  }
  const json::value* text = body.find_pointer(token, error);
  return text == nullptr ? nullptr : text->if_string();
}

}  // namespace

void check_handshake(const Handshake& handshake, const SignatureScheme& scheme) {
  if (std::holds_alternative<std::monostate>(handshake)) return;
  const std::string which = "the handshake " + std::string{name_of(handshake)};
  const auto need = [&](bool fits, const char* schemes) {
    if (fits) return;
    throw std::invalid_argument(which + " goes with " + schemes + ", not with the scheme " +
                                std::string{to_string(scheme)});
  };
  const auto* hmac = std::get_if<HmacSignature>(&scheme);
  if (const auto* cloudevents = std::get_if<CloudEventsHandshake>(&handshake)) {
    need(hmac != nullptr || std::holds_alternative<StandardWebhooks>(scheme) ||
             std::holds_alternative<Ed25519Signature>(scheme) ||
             std::holds_alternative<BearerToken>(scheme),
         "the schemes bearer, hmac, standard_webhooks and ed25519");
    const bool good = std::ranges::all_of(cloudevents->origins, [](const std::string& one) {
      return !one.empty() && is_printable(one) && one.find(' ') == std::string::npos;
    });
    if (cloudevents->origins.empty() || !good) {
      throw std::invalid_argument(which + " needs the origins that may send, such as " +
                                  "eventgrid.azure.net, or *");
    }
    if (cloudevents->rate < 0) throw std::invalid_argument(which + ": its rate is below zero");
  } else if (const auto* meta = std::get_if<MetaHandshake>(&handshake)) {
    need(hmac != nullptr, "the scheme hmac");
    const auto& tokens = meta->verify_tokens;
    if (tokens.empty() || std::ranges::any_of(tokens, &std::string::empty)) {
      throw std::invalid_argument(which + " needs a verify token, the one that Meta was given");
    }
  } else if (std::holds_alternative<ZoomHandshake>(handshake)) {
    need(hmac != nullptr && hmac->hash == MacHash::sha256, "the scheme hmac and SHA-256");
  } else {
    need(std::holds_alternative<GraphClientState>(scheme), "the scheme graph");
  }
}

std::string_view handshake_methods(const Handshake& handshake) noexcept {
  if (std::holds_alternative<CloudEventsHandshake>(handshake)) return ", OPTIONS";
  if (std::holds_alternative<MetaHandshake>(handshake)) return ", GET, HEAD";
  return "";
}

std::optional<HttpResponse> answer_unsigned_handshake(const Handshake& handshake,
                                                      const HttpRequest& request) {
  const std::string& method = request.method;
  const auto* cloudevents = std::get_if<CloudEventsHandshake>(&handshake);
  if (cloudevents != nullptr && method == "OPTIONS") return allow_origin(*cloudevents, request);
  const auto* meta = std::get_if<MetaHandshake>(&handshake);
  if (meta != nullptr && (method == "GET" || method == "HEAD")) {
    return answer_challenge(*meta, request);
  }
  if (std::holds_alternative<GraphHandshake>(handshake) && method == "POST") {
    for (const char* name : {"validationToken", "validationtoken"}) {  // SharePoint: in small
      if (auto token = query_value(request, name)) return echo_token(name, std::move(*token));
    }
  }
  return {};
}

std::optional<HttpResponse> answer_signed_handshake(const Handshake& handshake,
                                                    const SignatureScheme& scheme,
                                                    std::string_view body,
                                                    std::string_view secret) {
  const bool slack = std::holds_alternative<SlackSignature>(scheme);
  if (!slack && !std::holds_alternative<ZoomHandshake>(handshake)) return {};
  json::parse_options options;
  options.max_depth = max_json_depth;
  json::error_code error;
  const json::value parsed = json::parse({body.data(), body.size()}, error, {}, options);
  if (error) return {};
  if (slack) {
    const auto* challenge = find_challenge(parsed, "/type", "url_verification", "/challenge");
    if (challenge == nullptr) return {};
    return echo_token("challenge", std::string{*challenge});
  }
  const auto* plain =
      find_challenge(parsed, "/event", "endpoint.url_validation", "/payload/plainToken");
  if (plain == nullptr) return {};
  const HttpResponse token = echo_token("plainToken", std::string{*plain});
  std::string answer = R"({"plainToken":)";
  append_json_string(answer, token.body);
  answer += R"(,"encryptedToken":)";
  append_json_string(answer, hex(hmac(HashFunction::sha256, secret, token.body)));
  return json_response(200, answer + "}");
}

}  // namespace twinbox
