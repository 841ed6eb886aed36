// Authorization: tokens with roles, and protection against requests from foreign web pages.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/access/sessions.hpp"
#include "daemon/access/tokens.hpp"
#include "daemon/config/config.hpp"
#include "daemon/http/http_router.hpp"
#include <twinbox/http.hpp>

namespace twinbox::app {

/// The caller of a request and its permissions.
struct Caller {
  std::string name = {};  ///< empty: no token
  std::optional<Role> role = {};
  bool may_read = false;
  bool may_operate = false;
};

class Access {
 public:
  /// Keeps the tokens of `config`; `sessions` must outlive it.
  Access(const Config& config, std::vector<Token> tokens, Sessions& sessions);

  /// True if only this machine can reach `server`: no hosts, no TLS, a loopback address.
  static bool is_loopback_only(const ServerConfig& server);
  /// True if a peer on this machine counts as local: `loopback_without_token` is set and only this
  /// machine can reach the server. Otherwise a proxy that adds no headers would make all its
  /// clients local.
  [[nodiscard]] bool trusts_loopback() const noexcept { return trusts_loopback_; }

  /// Empty: the request is allowed.
  [[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& head,
                                                   RequiredAccess need) const;
  /// True if a streamed response may continue. Does not count as a use of its session.
  [[nodiscard]] bool still_allowed(const HttpRequest& head, RequiredAccess need) const;
  /// As above, with the endpoint that the router found; a rejected caller learns nothing else.
  [[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& head,
                                                   const EndpointLookup& found) const;
  /// The name of the token in the request; empty: none.
  [[nodiscard]] std::string actor(const HttpRequest& head) const;
  [[nodiscard]] Caller caller(const HttpRequest& head) const;

  struct Login {
    Caller caller;
    std::string session;  ///< for the cookie
  };
  /// Starts a session for a token or a single-use code. Empty: neither matches.
  [[nodiscard]] std::optional<Login> log_in(std::string_view token) const;
  /// After a `log_in` that returned nothing.
  [[nodiscard]] Sessions::Failed count_failed_login() const {
    return sessions_.count_failed_login();
  }
  /// Ends the session of the request. False: a page of another origin sent it.
  [[nodiscard]] bool log_out(const HttpRequest& head) const;
  /// The name of the cookie with the session id. The cookie counts only in requests from pages of
  /// this server, because browsers also add it to requests from other pages. Over HTTPS, to the
  /// server or its proxy, the name has a prefix that no other host of the domain can set.
  [[nodiscard]] std::string_view cookie_name(const HttpRequest& head) const;
  [[nodiscard]] bool over_https(const HttpRequest& head) const;

 private:
  [[nodiscard]] std::optional<HttpResponse> refuse_foreign(const HttpRequest& head) const;
  [[nodiscard]] bool is_own_host(std::string_view host) const;
  [[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& head, RequiredAccess need,
                                                   bool use) const;
  [[nodiscard]] const Token* find(const HttpRequest& head, bool use = true) const;
  [[nodiscard]] const Token* find(std::string_view token) const;
  [[nodiscard]] const Token* find_hash(std::string_view hash) const;

  std::vector<std::string> hosts_;
  bool trusts_loopback_;
  bool tls_;
  std::vector<Token> tokens_;
  Sessions& sessions_;
};

}  // namespace twinbox::app
