// Who may do what: tokens with roles, and requests that a web page must not be able to make.
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

/// Who asks, as far as a token tells, and what he may do.
struct Caller {
  std::string name = {};  ///< empty: nobody is known
  std::optional<Role> role = {};
  bool may_read = false;
  bool may_operate = false;
};

class Access {
 public:
  /// Keeps the tokens of `config`; `sessions` must outlive it.
  Access(const Config& config, std::vector<Token> tokens, Sessions& sessions);

  /// Whether only this machine is meant to reach `server`: no hosts, no TLS, a loopback address.
  static bool is_loopback_only(const ServerConfig& server);
  /// Whether a peer on this machine counts as local: `loopback_without_token` is set, and only this
  /// machine is meant to reach the server. Otherwise a proxy that does not announce itself would
  /// make all its clients local.
  [[nodiscard]] bool trusts_loopback() const noexcept { return trusts_loopback_; }

  /// Empty: the request may go on.
  [[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& head,
                                                   RequiredAccess need) const;
  /// Whether an answer that goes on may go on: its session does not count as used.
  [[nodiscard]] bool still_allowed(const HttpRequest& head, RequiredAccess need) const;
  /// The same with what the router has found for it; who may not ask here learns nothing else.
  [[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& head,
                                                   const EndpointLookup& found) const;
  /// Whose token the request brings; empty: nobody's.
  [[nodiscard]] std::string actor(const HttpRequest& head) const;
  [[nodiscard]] Caller caller(const HttpRequest& head) const;

  struct Login {
    Caller caller;
    std::string session;  ///< for the cookie
  };
  /// Begins a session for a token, or for a code that counts once. Empty: it is neither.
  [[nodiscard]] std::optional<Login> log_in(std::string_view token) const;
  /// After a `log_in` that returned nothing.
  [[nodiscard]] Sessions::Failed count_failed_login() const {
    return sessions_.count_failed_login();
  }
  /// Ends the session that the request brings. False: a page of another origin asks for it.
  [[nodiscard]] bool log_out(const HttpRequest& head) const;
  /// The cookie that holds the id of a session. It counts only in requests of this server's own
  /// pages: browsers add it to those of others, too. Where HTTPS is spoken, by the server or by its
  /// proxy, a name that no other host of the domain can set.
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
