// The token file: who may do what. Only hashes are kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.hpp"

namespace twinbox::app {

enum class Role {
  send,     ///< enqueue, accept
  read,     ///< look
  operate,  ///< look, requeue, discard, pause
  admin,    ///< everything
};

std::string_view to_string(Role role) noexcept;
/// Empty: there is no such role.
std::optional<Role> parse_role(std::string_view text) noexcept;

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

/// 256 random bits behind `prefix`. Throws std::runtime_error.
std::string make_secret(std::string_view prefix);
/// As it stands in the file.
std::string token_hash(std::string_view token);

/// Makes a token, adds its hash to the file and returns it. A new file is readable by its owner
/// only; made by root, it belongs to the owner of its folder. Throws std::runtime_error, also when
/// the file has a token of that name, and std::invalid_argument for a name that cannot be one.
std::string make_token(const std::filesystem::path& file, const std::string& name, Role role);

/// Takes every token of that name out of the file; the rest of it stays as it is. Returns how many
/// there were. Throws std::runtime_error.
std::size_t revoke_token(const std::filesystem::path& file, const std::string& name);

/// Where the tokens are: in the file that the configuration names, else beside the SQLite store.
std::filesystem::path token_file(const Config& config);
/// Throws std::runtime_error where there are several stores and no file is named.
void require_token_file(const Config& config);

}  // namespace twinbox::app
