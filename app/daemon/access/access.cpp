#include "daemon/access/access.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "daemon/http/request_parser.hpp"

namespace twinbox::app {
namespace {

/// Compares in constant time.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  }
  return difference == 0;
}

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

/// `name`, `name:port`, `[v6]:port` → the host without the port.
std::string host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    return lower(authority.substr(1, std::min(authority.find(']'), authority.size()) - 1));
  }
  return lower(authority.substr(0, authority.rfind(':')));
}

/// True if `Origin` is a page of `host`, including the port, because another port is another
/// program. The default port of the scheme may be left out.
bool same_authority(std::string_view origin, std::string_view host) {
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string usual = lower(origin.substr(0, scheme)) == "https" ? ":443" : ":80";
  const auto with_port = [&](std::string_view authority) {
    const bool has_port = authority.find(':', authority.find(']') + 1) != std::string_view::npos;
    return lower(authority) + (has_port ? "" : usual);
  };
  return with_port(origin.substr(scheme + 3)) == with_port(host);
}

bool covers(Role role, RequiredAccess need) {
  switch (need) {
    case RequiredAccess::nothing:
    case RequiredAccess::signature: return true;
    case RequiredAccess::send: return role == Role::send || role == Role::admin;
    case RequiredAccess::read:
      return role == Role::read || role == Role::operate || role == Role::admin;
    case RequiredAccess::operate: return role == Role::operate || role == Role::admin;
    case RequiredAccess::admin: return role == Role::admin;
  }
  return false;
}

std::string_view name_of(RequiredAccess need) {
  switch (need) {
    case RequiredAccess::send: return "send";
    case RequiredAccess::read: return "read";
    case RequiredAccess::operate: return "operate";
    default: return "admin";
  }
}

std::optional<std::string_view> bearer(const HttpRequest& head) {
  const auto authorization = head.headers.find("Authorization");
  if (!authorization) return {};
  constexpr std::string_view scheme = "bearer ";
  if (lower(authorization->substr(0, scheme.size())) != scheme) return "";
  return authorization->substr(scheme.size());
}

std::optional<std::string_view> cookie_of(const HttpRequest& head, std::string_view name) {
  for (std::string_view list : head.headers.all("Cookie")) {
    while (!list.empty()) {
      std::string_view pair = list.substr(0, std::min(list.find(';'), list.size()));
      list.remove_prefix(std::min(pair.size() + 1, list.size()));
      pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
      if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) {
        return pair.substr(name.size() + 1);
      }
    }
  }
  return {};
}

/// True if a page of this server sent the request; a given `Origin` was compared before. Browsers
/// treat another port of the same host as the same site and send it the same cookies.
bool from_own_page(const HttpRequest& head) {
  if (!head.headers.find("Host")) return false;
  const auto site = head.headers.find("Sec-Fetch-Site");
  if (site && *site != "same-origin" && *site != "none") return false;
  if (head.method == "GET" || head.method == "HEAD") return true;
  return head.headers.find("Origin").has_value() || (site && *site == "same-origin");
}

}  // namespace

Access::Access(const Config& config, std::vector<Token> tokens, Sessions& sessions)
    : trusts_loopback_(config.access.loopback_without_token && is_loopback_only(config.server)),
      tls_(!config.server.tls_certificate.empty()),
      tokens_(std::move(tokens)),
      sessions_(sessions) {
  hosts_.emplace_back("localhost");
  for (const std::string& host : config.server.hosts) hosts_.push_back(host_of(host));
}

bool Access::is_loopback_only(const ServerConfig& server) {
  return server.hosts.empty() && server.tls_certificate.empty() && names_loopback(server.listen);
}

bool Access::is_own_host(std::string_view host) const {
  if (std::ranges::find(hosts_, host) != hosts_.end()) return true;
  // Anyone can point a DNS name here, but not an address.
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

std::optional<HttpResponse> Access::refuse_foreign(const HttpRequest& head) const {
  const std::vector<std::string_view> hosts = head.headers.all("Host");
  if (hosts.size() > 1) {
    return problem(400, "Bad Request",
                   "the request has more than one Host header; send exactly one");
  }
  // HTTP/1.0 may omit Host. Browsers do not speak it, so DNS rebinding is impossible.
  const std::string_view host = hosts.empty() ? "" : hosts[0];
  if (!hosts.empty() && !is_own_host(host_of(host))) {
    return problem(421, "Misdirected Request",
                   "this server does not accept this Host; add it to server.hosts");
  }
  const auto origin = head.headers.find("Origin");
  const auto site = head.headers.find("Sec-Fetch-Site");
  const bool foreign_origin =
      origin && (!same_authority(*origin, host) ||
                 (over_https(head) && !lower(*origin).starts_with("https://")));
  // Other pages may link to the dashboard; its page contains no data.
  const bool followed_link = head.method == "GET" && head.target == "/" &&
                             head.headers.find("Sec-Fetch-Dest") == "document";
  if (foreign_origin || (site && *site == "cross-site" && !followed_link)) {
    return problem(
        403, "Forbidden",
        "requests from pages of another origin are rejected; open the page on this server");
  }
  return {};
}

bool Access::over_https(const HttpRequest& head) const {
  return tls_ || head.headers.find("X-Forwarded-Proto") == "https";
}

std::string_view Access::cookie_name(const HttpRequest& head) const {
  return over_https(head) ? "__Host-twinbox" : "twinbox";
}

const Token* Access::find(const HttpRequest& head, bool use) const {
  if (const auto given = bearer(head)) return find(*given);
  const auto id = cookie_of(head, cookie_name(head));
  if (!id || !from_own_page(head)) return nullptr;
  const std::optional<std::string> hash = use ? sessions_.find(*id) : sessions_.peek(*id);
  return hash ? find_hash(*hash) : nullptr;
}

const Token* Access::find(std::string_view given) const { return find_hash(token_hash(given)); }

const Token* Access::find_hash(std::string_view hash) const {
  const Token* found = nullptr;
  for (const Token& token : tokens_) {
    if (same(token.hash, hash)) found = &token;
  }
  return found;
}

std::optional<HttpResponse> Access::refuse(const HttpRequest& head, RequiredAccess need) const {
  return refuse(head, need, true);
}

bool Access::still_allowed(const HttpRequest& head, RequiredAccess need) const {
  return !refuse(head, need, false);
}

std::optional<HttpResponse> Access::refuse(const HttpRequest& head, RequiredAccess need,
                                           bool use) const {
  if (auto foreign = refuse_foreign(head)) return foreign;
  if (need == RequiredAccess::nothing || need == RequiredAccess::signature) return {};
  const bool local = trusts_loopback_ && head.loopback;
  if (local && (need == RequiredAccess::send || need == RequiredAccess::read) && !bearer(head))
    return {};
  const Token* token = find(head, use);
  if (token == nullptr) {
    const bool unknown = !bearer(head).value_or("").empty();
    HttpResponse refusal = problem(
        401, "Unauthorized",
        unknown ? "unknown token; add one with \"twinbox token add\" and reload the daemon"
                : "a token is required: send Authorization: Bearer … with a token of the role " +
                      std::string{name_of(need)});
    refusal.headers.add("WWW-Authenticate", "Bearer");
    return refusal;
  }
  if (!covers(token->role, need)) {
    return problem(403, "Forbidden",
                   "this token does not have the role " + std::string{name_of(need)});
  }
  return {};
}

std::optional<HttpResponse> Access::refuse(const HttpRequest& head,
                                           const EndpointLookup& found) const {
  const auto* match = std::get_if<Match>(&found);
  auto refusal = refuse(head, match == nullptr ? RequiredAccess::nothing : match->endpoint->need);
  if (!refusal && match == nullptr) refusal = std::get<HttpResponse>(found);
  return refusal;
}

std::string Access::actor(const HttpRequest& head) const {
  const Token* token = find(head);
  return token == nullptr ? "" : token->name;
}

Caller Access::caller(const HttpRequest& head) const {
  Caller caller{.may_read = !refuse(head, RequiredAccess::read),
                .may_operate = !refuse(head, RequiredAccess::operate)};
  if (const Token* token = find(head)) {
    caller.name = token->name;
    caller.role = token->role;
  }
  return caller;
}

std::optional<Access::Login> Access::log_in(std::string_view given) const {
  const Token* token = find(given);
  if (token == nullptr) {
    if (const auto hash = sessions_.redeem_code(given)) token = find_hash(*hash);
  }
  if (token == nullptr) return {};
  return Login{{token->name, token->role, covers(token->role, RequiredAccess::read),
                covers(token->role, RequiredAccess::operate)},
               sessions_.begin(token->hash)};
}

bool Access::log_out(const HttpRequest& head) const {
  const auto id = cookie_of(head, cookie_name(head));
  if (!id) return true;
  if (!from_own_page(head)) return false;
  sessions_.end(*id);
  return true;
}

}  // namespace twinbox::app
