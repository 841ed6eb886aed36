// Our functions, for clients in other languages: a JSON object per line comes in, one goes out.
//
// {"act":"verify","scheme":…,"secrets":[…],"headers":{…},"body":…,"now":<seconds>}
// {"act":"sign","secrets":[…],"id":…,"at":<seconds>,"body":…}
#include <boost/json.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <twinbox/signature.hpp>

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

json::object verify(const json::object& asked) {
  HttpRequest request{.body = text(asked, "body")};
  for (const auto& [name, value] : asked.at("headers").as_object()) {
    request.headers.add(std::string{name}, std::string{value.as_string()});
  }
  const SignatureVerifier verifier{signature_scheme(text(asked, "scheme")), secrets(asked)};
  const Verification found = verifier.verify(request, instant(asked, "now"));
  return {{"genuine", found.genuine()},
          {"fault", found.fault ? json::value(to_string(*found.fault)) : json::value{}}};
}

json::object sign(const json::object& asked) {
  json::object headers;
  for (const auto& field : WebhookSigner{secrets(asked)}.sign(
           text(asked, "id"), instant(asked, "at"), text(asked, "body"))) {
    headers[field.name] = field.value;
  }
  return {{"headers", headers}};
}

json::object answer(const json::object& asked) {
  const std::string act = text(asked, "act");
  if (act == "verify") return verify(asked);
  if (act == "sign") return sign(asked);
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
