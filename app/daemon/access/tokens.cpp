#include "daemon/access/tokens.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <twinbox/message.hpp>

namespace twinbox::app {
namespace {

constexpr std::array<std::pair<std::string_view, Role>, 4> roles{{{"send", Role::send},
                                                                  {"read", Role::read},
                                                                  {"operate", Role::operate},
                                                                  {"admin", Role::admin}}};

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

/// The first word of a line; empty: no token.
std::string name_in(const std::string& line) {
  std::string name;
  std::istringstream{line.substr(0, line.find('#'))} >> name;
  return name;
}

constexpr std::string_view name_rule =
    "a token name has 1 to 64 letters, digits and . _ - @, and starts with a letter or a digit";

/// Names start with a letter or a digit because they are sources of messages, and `-` is the source
/// of callers without a token.
bool can_be_name(std::string_view name) {
  const auto alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !name.empty() && name.size() <= 64 && alphanumeric(name[0]) &&
         std::ranges::all_of(name, [&](char c) {
           return alphanumeric(c) || c == '.' || c == '_' || c == '-' || c == '@';
         });
}

[[noreturn]] void refuse_write(const std::filesystem::path& file, int error) {
  throw std::runtime_error("the token file " + file.string() +
                           " cannot be written: " + std::strerror(error) +
                           (error == ENOENT ? "; create its folder" : "; grant this user access") +
                           ", or set access.token_file to another file");
}

/// Closed by the destructor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return number_; }

 private:
  int number_;
};

bool write_all(int descriptor, const std::string& text) {
  return ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
         fsync(descriptor) == 0;
}

/// Serializes changes to the token files of one folder.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& file)
      : folder_(open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_.get() < 0 || flock(folder_.get(), LOCK_EX) != 0) refuse_write(file, errno);
  }
  static std::filesystem::path folder_of(const std::filesystem::path& file) {
    return file.has_parent_path() ? file.parent_path() : std::filesystem::path{"."};
  }
  [[nodiscard]] int descriptor() const noexcept { return folder_.get(); }

 private:
  Descriptor folder_;
};

}  // namespace

std::string_view to_string(Role role) noexcept {
  return std::ranges::find(roles, role, &decltype(roles)::value_type::second)->first;
}

std::optional<Role> parse_role(std::string_view text) noexcept {
  const auto found = std::ranges::find(roles, text, &decltype(roles)::value_type::first);
  if (found == roles.end()) return {};
  return found->second;
}

std::vector<Token> read_tokens(const std::filesystem::path& file) {
  std::vector<Token> tokens;
  std::error_code error;  // even if its folder cannot be read
  if (!std::filesystem::exists(file, error) && !error) return tokens;
  std::ifstream stream{file};
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    std::istringstream words{line.substr(0, line.find('#'))};
    std::string name, role, hash, rest;
    if (!(words >> name)) continue;
    words >> role >> hash;
    const std::optional<Role> known = parse_role(role);
    const bool digits =
        hash.size() == 64 && hash.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    if (!known || !digits || words >> rest) {
      throw std::runtime_error(file.string() + ":" + std::to_string(number) +
                               ": expected a name, a role (send, read, operate, admin) and the "
                               "SHA-256 of the token in 64 digits");
    }
    if (!can_be_name(name)) {
      throw std::runtime_error(
          file.string() + ":" + std::to_string(number) + ": the name \"" + name.substr(0, 64) +
          "\" is not a valid token name; choose another: " + std::string{name_rule});
    }
    std::ranges::transform(hash, hash.begin(), [](char c) {
      return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
    });
    tokens.push_back({name, *known, hash});
  }
  // A partly read file must not count as the whole file.
  if (!stream.eof()) {
    throw std::runtime_error(
        "the token file " + file.string() +
        " cannot be read; grant this user access, or set access.token_file to another file");
  }
  return tokens;
}

std::vector<Token> read_tokens_again(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) {
    throw std::runtime_error("the token file " + file.string() +
                             " is missing, so the daemon keeps its current tokens; restore the "
                             "file, or empty it to revoke all tokens");
  }
  return read_tokens(file);
}

std::string make_secret(std::string_view prefix) {
  std::string bytes(32, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("the operating system returned no random bytes");
  }
  return std::string{prefix} + hex(bytes);
}

std::string token_hash(std::string_view token) { return hex(ContentHash::of(token).bytes); }

std::string make_token(const std::filesystem::path& file, const std::string& name, Role role) {
  if (!can_be_name(name)) {
    throw std::invalid_argument(std::string{name_rule});
  }
  const FolderLock lock{file};
  if (std::ranges::any_of(read_tokens(file), [&](const Token& one) { return one.name == name; })) {
    throw std::runtime_error("the token file " + file.string() + " already has a token " + name +
                             "; revoke it, or choose another name");
  }
  std::string token = make_secret("twb_");
  std::error_code ignored;
  const bool fresh = !std::filesystem::exists(file, ignored);
  const Descriptor out{open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  if (out.get() < 0) refuse_write(file, errno);
  struct stat folder {};
  if (fresh && geteuid() == 0 && fstat(lock.descriptor(), &folder) == 0 &&
      fchown(out.get(), folder.st_uid, folder.st_gid) != 0) {
    refuse_write(file, errno);
  }
  // An unterminated last line must not swallow the new one.
  const off_t size = lseek(out.get(), 0, SEEK_END);
  char last = '\n';
  if (size > 0 && pread(out.get(), &last, 1, size - 1) != 1) refuse_write(file, errno);
  const std::string line =
      name + " " + std::string{to_string(role)} + " " + token_hash(token) + "\n";
  if (!write_all(out.get(), (last == '\n' ? "" : "\n") + line)) refuse_write(file, errno);
  return token;
}

std::size_t revoke_token(const std::filesystem::path& file, const std::string& name) {
  const FolderLock lock{file};
  read_tokens(file);  // an unreadable file is not truncated
  std::ifstream stream{file};
  std::string line, kept;
  std::size_t count = 0;
  while (std::getline(stream, line)) {
    if (name_in(line) == name) {
      ++count;
    } else {
      kept += line + "\n";
    }
  }
  if (count == 0) return 0;
  struct stat before {};
  if (stat(file.c_str(), &before) != 0) refuse_write(file, errno);
  // Next to the target of a symbolic link, so that the link is kept.
  const std::filesystem::path real = std::filesystem::canonical(file);
  const std::string next = real.string() + ".new";
  unlink(next.c_str());
  const Descriptor out{open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  const bool written = out.get() >= 0 &&
                       (geteuid() != 0 || fchown(out.get(), before.st_uid, before.st_gid) == 0) &&
                       fchmod(out.get(), before.st_mode & 0640U) == 0 &&
                       write_all(out.get(), kept) && rename(next.c_str(), real.c_str()) == 0;
  if (!written) refuse_write(file, errno);
  fsync(lock.descriptor());
  return count;
}

std::filesystem::path token_file(const Config& config) {
  if (!config.access.token_file.empty()) return config.access.token_file;
  for (const StoreConfig& store : config.stores) {
    if (!store.url.starts_with("sqlite:") || store.url == "sqlite::memory:") continue;
    return std::filesystem::path{store.url.substr(7)}.parent_path() / "twinbox.tokens";
  }
  return "twinbox.tokens";
}

void require_token_file(const Config& config) {
  if (!config.access.token_file.empty() || config.stores.size() < 2) return;
  throw std::runtime_error(
      "is missing, and with several stores it has no default; set it, for example token_file = "
      "\"twinbox.tokens\". With a single SQLite store, the default is twinbox.tokens in the folder "
      "of its file: set that path to keep its tokens");
}

}  // namespace twinbox::app
