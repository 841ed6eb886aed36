// The token file: names, roles and hashes of tokens.
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
  read,     ///< read
  operate,  ///< read, requeue, discard, pause
  admin,    ///< everything
};

std::string_view to_string(Role role) noexcept;
/// Empty: unknown role.
std::optional<Role> parse_role(std::string_view text) noexcept;

struct Token {
  std::string name;
  Role role;
  std::string hash;  ///< SHA-256 of the token, as 64 hexadecimal digits
};

/// Reads a token file with one line `name role hash` per token; `#` starts a comment. A missing
/// file counts as empty. Throws std::runtime_error with the file and the invalid line.
std::vector<Token> read_tokens(const std::filesystem::path& file);
/// As read_tokens(), for a reload: also throws if the file is missing.
std::vector<Token> read_tokens_again(const std::filesystem::path& file);

/// `prefix` followed by 256 random bits. Throws std::runtime_error.
std::string make_secret(std::string_view prefix);
/// The hash as stored in the file.
std::string token_hash(std::string_view token);

/// Creates a token, adds its hash to the file and returns it. A new file is readable only by its
/// owner; if root creates it, it belongs to the owner of its folder. Throws std::runtime_error,
/// also for a duplicate name, and std::invalid_argument for an invalid name.
std::string make_token(const std::filesystem::path& file, const std::string& name, Role role);

/// Removes every token with this name from the file and keeps the rest unchanged. Returns the
/// number of removed tokens. Throws std::runtime_error.
std::size_t revoke_token(const std::filesystem::path& file, const std::string& name);

/// The token file: the configured one, or by default the one in the folder of the SQLite store.
std::filesystem::path token_file(const Config& config);
/// Throws std::runtime_error if there are several stores and no configured file.
void require_token_file(const Config& config);

}  // namespace twinbox::app
