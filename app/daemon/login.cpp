#include "daemon/login.hpp"

#include <algorithm>
#include <boost/json/object.hpp>

#include "daemon/json.hpp"
#include "daemon/parameters.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

HttpResponse show(const Caller& caller) {
  json::object out{{"version", TWINBOX_VERSION},
                   {"actor", nullptr},
                   {"role", nullptr},
                   {"can", {{"read", caller.may_read}, {"operate", caller.may_operate}}}};
  if (caller.role) {
    const std::string_view role = to_string(*caller.role);
    out["actor"] = caller.name;
    out["role"] = json::string_view{role.data(), role.size()};
  }
  return answer(out);
}

/// What RFC 6265 lets stand in the value of a cookie.
bool fits_in_cookie(std::string_view token) {
  return !token.empty() && std::ranges::all_of(token, [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != ',' && c != ';' && c != '\\';
  });
}

std::string cookie(std::string_view value, bool tls, const HttpRequest& request) {
  const auto brought_by = request.headers.find("X-Forwarded-Proto");  // what a proxy speaks
  return std::string{Access::cookie} + "=" + std::string{value} +
         "; Path=/; HttpOnly; SameSite=Strict" + (tls || brought_by == "https" ? "; Secure" : "");
}

HttpResponse log_in(const Access& access, bool tls, const Call& call) {
  const std::string token = text_member(parse_body(call.request, {"token"}), "token");
  const std::optional<Caller> caller = access.caller(token);
  if (!caller) {
    throw Refused(401,
                  "this is no token of this daemon; its first start printed one, and "
                  "SIGHUP reads the token file again");
  }
  if (!fits_in_cookie(token)) {
    throw Refused(400,
                  "this token holds characters that fit in no cookie; make one of letters "
                  "and digits");
  }
  HttpResponse response = show(*caller);
  response.headers.add("Set-Cookie", cookie(token, tls, call.request));
  return response;
}

HttpResponse log_out(bool tls, const Call& call) {
  return {204, {{"Set-Cookie", cookie("", tls, call.request) + "; Max-Age=0"}}};
}

}  // namespace

void add_login(Router& router, const Access& access, bool tls) {
  router.add({"GET", "/v1/me", Need::nothing,
              [&access](const Call& call) { return show(access.caller(call.request)); }, true});
  router.add({"POST", "/v1/login", Need::nothing,
              [&access, tls](const Call& call) { return log_in(access, tls, call); }, true});
  router.add({"POST", "/v1/logout", Need::nothing,
              [tls](const Call& call) { return log_out(tls, call); }, true});
}

}  // namespace twinbox::app
