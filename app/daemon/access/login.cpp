#include "daemon/access/login.hpp"

#include <boost/json/object.hpp>

#include "daemon/http/json.hpp"
#include "daemon/http/request_parameters.hpp"
#include "daemon/http/response_text.hpp"

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

std::string cookie(const Access& access, std::string_view value, const HttpRequest& request) {
  return std::string{access.cookie_name(request)} + "=" + std::string{value} +
         "; Path=/; HttpOnly; SameSite=Strict" + (access.over_https(request) ? "; Secure" : "");
}

void log_refused(const Environment& environment, std::string_view reason) {
  environment.write(LogLevel::warning, "login_refused", {{"reason", reason}});
}

HttpResponse too_many() {
  HttpResponse response =
      problem(429, title_of(429), "too many failed logins; retry in one second");
  response.headers.add("Retry-After", "1");
  return response;
}

HttpResponse log_in(const Access& access, const Environment& environment,
                    const EndpointRequest& call) {
  const std::string token = text_member(parse_body(call.request, {"token"}), "token");
  // Valid tokens are checked first, so failed logins cannot lock out their owners.
  const std::optional<Access::Login> login = access.log_in(token);
  if (!login) {
    const Sessions::Failed failed = access.count_failed_login();
    if (failed == Sessions::Failed::first_rejected) log_refused(environment, "too_many");
    if (failed != Sessions::Failed::counted) return too_many();
    log_refused(environment, "unknown_token");
    throw HttpProblem(401,
                      "unknown token, or a login link that was already used or has expired; create "
                      "a token with \"twinbox token add\" and reload the daemon");
  }
  HttpResponse response = show(login->caller);
  response.headers.add("Set-Cookie", cookie(access, login->session, call.request));
  return response;
}

HttpResponse log_out(const Access& access, const EndpointRequest& call) {
  if (!access.log_out(call.request)) {
    throw HttpProblem(403, "only the dashboard of this daemon can end its session; log out there");
  }
  return {204, {{"Set-Cookie", cookie(access, "", call.request) + "; Max-Age=0"}}};
}

}  // namespace

void add_login(HttpRouter& router, const Access& access, const Environment& environment) {
  router.add({"GET", "/v1/me", RequiredAccess::nothing,
              [&access](const EndpointRequest& call) { return show(access.caller(call.request)); },
              true});
  router.add({"POST", "/v1/login", RequiredAccess::nothing,
              [&access, environment](const EndpointRequest& call) {
                return log_in(access, environment, call);
              },
              true});
  router.add({"POST", "/v1/logout", RequiredAccess::nothing,
              [&access](const EndpointRequest& call) { return log_out(access, call); }, true});
}

}  // namespace twinbox::app
