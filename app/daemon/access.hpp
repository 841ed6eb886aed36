// Who may do what: tokens with roles, and requests that a web page must not be able to make.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/router.hpp"
#include <twinbox/http.hpp>

namespace twinbox::app {

enum class Role {
  send,     ///< enqueue, accept
  read,     ///< look
  operate,  ///< look, requeue, discard, pause
  admin,    ///< everything
};

std::string_view to_string(Role role) noexcept;

/// Only the hash of a token is kept.
struct Token {
  std::string name;
  Role role;
  std::string hash;  ///< SHA-256 of the token, as 64 hexadecimal digits
};

/// Reads a token file: a line `name role hash` for each, `#` begins a comment. A file that is not
/// there holds none. Throws std::runtime_error that names the file, and the line that is wrong.
std::vector<Token> read_tokens(const std::filesystem::path& file);
/// For a reload: throws also when there is none any more.
std::vector<Token> read_tokens_again(const std::filesystem::path& file);

/// Makes a token of 256 random bits, adds its hash to the file (readable by its owner only) and
/// returns it. Throws std::runtime_error.
std::string make_token(const std::filesystem::path& file, const std::string& name, Role role);

/// Where the tokens are when the configuration names no file: beside the first SQLite store.
std::filesystem::path token_file(const Config& config);

/// Who asks, as far as a token tells, and what he may do.
struct Caller {
  std::string name = {};  ///< empty: nobody is known
  std::optional<Role> role = {};
  bool may_read = false;
  bool may_operate = false;
};

class Access {
 public:
  /// Holds the token of a browser that has logged in. Such a cookie counts only in requests of this
  /// server's own pages: browsers add it to those of others, too.
  static constexpr std::string_view cookie = "twinbox";

  Access(const Config& config, std::vector<Token> tokens);

  /// Empty: the request may go on.
  [[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& head, Need need) const;
  /// The same with what the router has found for it; who may not ask here learns nothing else.
  [[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& head,
                                                   const Found& found) const;
  /// Whose token the request brings; empty: nobody's.
  [[nodiscard]] std::string actor(const HttpRequest& head) const;
  [[nodiscard]] Caller caller(const HttpRequest& head) const;
  /// What a request that brings this token could do. Empty: it is none.
  [[nodiscard]] std::optional<Caller> caller(std::string_view token) const;

 private:
  [[nodiscard]] std::optional<HttpResponse> refuse_foreign(const HttpRequest& head) const;
  [[nodiscard]] bool own_name(std::string_view host) const;
  [[nodiscard]] const Token* find(const HttpRequest& head) const;
  [[nodiscard]] const Token* find(std::string_view token) const;

  std::vector<std::string> hosts_;
  bool loopback_without_token_;
  std::vector<Token> tokens_;
};

}  // namespace twinbox::app
