// Our functions, for clients in other languages: a JSON object per line comes in, one goes out.
//
// {"act":"verify","scheme":…,"secrets":[…],"headers":{…},"body":…,"now":<seconds>}
// {"act":"sign","secrets":[…],"id":…,"at":<seconds>,"body":…}
// {"act":"read","headers":{…},"body":…}: the events of a request, in the JSON format
// {"act":"write","mode":"binary|structured|batch","events":[…]}: a request with these events
#include <boost/json.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <twinbox/event.hpp>
#include <twinbox/webhook.hpp>

namespace {

namespace json = boost::json;
using namespace twinbox;

std::string text(const json::object& object, const char* name) {
  return std::string{object.at(name).as_string()};
}

Instant instant(const json::object& object, const char* name) {
  return Instant{std::chrono::seconds{object.at(name).as_int64()}};
}

std::vector<std::string> secrets(const json::object& object) {
  return json::value_to<std::vector<std::string>>(object.at("secrets"));
}

HttpHeaders headers(const json::object& object) {
  HttpHeaders all;
  for (const auto& [name, value] : object.at("headers").as_object()) {
    all.add(std::string{name}, std::string{value.as_string()});
  }
  return all;
}

json::object verify(const json::object& asked) {
  const HttpRequest request{.headers = headers(asked), .body = text(asked, "body")};
  const SignatureVerifier verifier{signature_scheme(text(asked, "scheme")), secrets(asked)};
  const Verification found = verifier.verify(request, instant(asked, "now"));
  return {{"genuine", found.genuine()},
          {"fault", found.fault ? json::value(to_string(*found.fault)) : json::value{}}};
}

json::object sign(const json::object& asked) {
  json::object signed_headers;
  for (const auto& field : WebhookSigner{secrets(asked)}.sign(
           text(asked, "id"), instant(asked, "at"), text(asked, "body"))) {
    signed_headers[field.name] = field.value;
  }
  return {{"headers", signed_headers}};
}

json::object read(const json::object& asked) {
  const auto events = events_from_http(headers(asked), text(asked, "body"));
  return {{"events", json::parse(to_json(std::span{events}))}};
}

json::object write(const json::object& asked) {
  const auto events = events_from_json(json::serialize(asked.at("events")));
  const std::string mode = text(asked, "mode");
  const HttpContent content =
      mode == "batch"
          ? to_http(std::span{events})
          : to_http(events.at(0), mode == "binary" ? ContentMode::binary : ContentMode::structured);
  json::object written;
  for (const auto& field : content.headers) written[field.name] = field.value;
  return {{"headers", written}, {"body", content.body}};
}

json::object answer(const json::object& asked) {
  const std::string act = text(asked, "act");
  if (act == "verify") return verify(asked);
  if (act == "sign") return sign(asked);
  if (act == "read") return read(asked);
  if (act == "write") return write(asked);
  throw std::invalid_argument("there is no act '" + act + "'");
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    json::object out;
    try {
      out = answer(json::parse(line).as_object());
    } catch (const std::exception& error) {
      out = {{"error", error.what()}};
    }
    std::cout << json::serialize(out) << std::endl;
  }
}
