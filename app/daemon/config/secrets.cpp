#include "daemon/config/secrets.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "daemon/http/request_target.hpp"

namespace twinbox::app {
namespace {

constexpr std::string_view mask = "[secret]";
constexpr std::string_view path_mask = "/…";
constexpr std::size_t min_part = 4;  // shorter parts of an address would match everywhere
constexpr std::size_t min_path = 8;
constexpr std::size_t min_segment = 6;        // path segments that do not look like a word
constexpr std::size_t min_long_segment = 12;  // path segments of any form

struct LongestFirst {
  bool operator()(const std::string& a, const std::string& b) const {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  }
};
/// The replacement of each value.
using Shown = std::map<std::string, std::string, LongestFirst>;

std::mutex mutex;
std::shared_ptr<const Shown> registered = std::make_shared<const Shown>();  // shared with readers

void add(Shown& shown, std::string_view part, std::size_t least = min_part,
         std::string instead = std::string{mask}) {
  if (part.size() >= least) shown.try_emplace(std::string{part}, std::move(instead));
}

void add_credentials(Shown& shown, std::string_view scheme, std::string_view user_info) {
  const std::size_t colon = user_info.find(':');
  const bool token = colon == std::string_view::npos && (scheme == "nats" || scheme == "tls");
  if (colon == std::string_view::npos && !token) return;  // a user name alone is not a secret
  add(shown, user_info);
  const std::string_view password = token ? user_info : user_info.substr(colon + 1);
  add(shown, password);
  if (const auto decoded = percent_decoded(password)) add(shown, *decoded);
}

/// Excludes short words, which may also be names of topics or endpoints.
bool looks_secret(std::string_view segment) {
  if (segment.size() >= min_long_segment) return true;
  const auto has = [](std::string_view text, char first, char last) {
    return std::ranges::any_of(text, [&](char c) { return c >= first && c <= last; });
  };
  const bool mixed = has(segment, 'a', 'z') && has(segment.substr(1), 'A', 'Z');
  return segment.size() >= min_segment && (mixed || has(segment, '0', '9'));
}

void add_path(Shown& shown, std::string_view path) {
  bool secret = path.size() >= min_path;
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view segment = rest.substr(0, rest.find('/'));
    rest.remove_prefix(segment.size());
    if (segment.empty() || !looks_secret(segment)) continue;
    secret = true;
    add(shown, segment);
  }
  if (secret) add(shown, path, min_part, std::string{path_mask});
}

/// The parts of `scheme://user:password@host/path?query`.
void add_address(Shown& shown, std::string_view value) {
  const std::size_t colon = value.find("://");
  if (colon == std::string_view::npos) return;
  const std::string_view scheme = value.substr(0, colon);
  const std::string_view rest = value.substr(colon + 3);
  std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  std::string_view path = rest.substr(host.size());
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) {
    add_credentials(shown, scheme, host.substr(0, at));
    host.remove_prefix(at + 1);
  }
  const std::string instead = std::string{scheme} + "://" + std::string{host} + "/…";
  shown[std::string{value}] = instead;
  const std::string_view before_query = value.substr(0, value.find_first_of("?#"));
  if (path.size() > 1) add(shown, before_query, min_part, instead);
  if (const std::size_t query = path.find_first_of("?#"); query != std::string_view::npos) {
    add(shown, path.substr(query + 1));
    path = path.substr(0, query);
  }
  // The path of a database address is its name, which errors need.
  if (!scheme.starts_with("h")) return;
  add_path(shown, path);
  if (const auto decoded = percent_decoded(path); decoded && *decoded != path) {
    add_path(shown, *decoded);
  }
}

/// The passwords in `key=value` strings, with optional blanks around the sign.
void add_keywords(Shown& shown, std::string_view value) {
  std::string lower{value};
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const std::string_view keyword : {"password", "pwd"}) {
    const std::size_t at = lower.find(keyword);
    if (at == std::string::npos) continue;
    std::string_view rest = value.substr(at + keyword.size());
    const std::size_t begin = rest.find_first_not_of(" =");
    if (begin == std::string_view::npos || rest.substr(0, begin).find('=') == rest.npos) continue;
    rest.remove_prefix(begin);
    add(shown, rest.substr(0, rest.find_first_of(" ;&")));
  }
}

bool word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/// The credential in `Bearer credential`: a receiver may repeat it without the scheme.
void add_authorization(Shown& shown, std::string_view value) {
  const std::size_t blank = value.find(' ');
  if (blank == std::string_view::npos) return;
  const std::string_view scheme = value.substr(0, blank);
  const std::string_view credential = value.substr(value.find_last_of(' ') + 1);
  if (!std::ranges::all_of(scheme, word_character)) return;
  if (value.find_first_not_of(' ', blank) != value.size() - credential.size()) return;
  add(shown, credential);
}

/// The mark of sinks for a truncated error, which may end in the middle of a secret.
constexpr std::string_view cut_mark = "… (cut)";

void mask_beginning_at_cut(std::string& text, const Shown& shown) {
  if (!text.ends_with(cut_mark)) return;
  const std::string_view kept = std::string_view{text}.substr(0, text.size() - cut_mark.size());
  std::size_t longest = 0;
  std::string_view longest_instead;
  for (const auto& [value, instead] : shown) {
    if (instead != mask && instead != path_mask)
      continue;  // the beginning of an address is not secret
    for (std::size_t size = std::min(value.size(), kept.size()); size >= min_part; --size) {
      if (!kept.ends_with(std::string_view{value}.substr(0, size))) continue;
      if (size > longest) longest_instead = instead;
      longest = std::max(longest, size);
      break;
    }
  }
  if (longest > 0) text.replace(kept.size() - longest, longest, longest_instead);
}

/// Replaces a short value only as a whole word: otherwise the gaps in other words would reveal it.
bool stands_alone(std::string_view text, std::size_t at, std::size_t size) {
  const bool before = at > 0 && word_character(text[at - 1]);
  const bool after = at + size < text.size() && word_character(text[at + size]);
  return !before && !after;
}

}  // namespace

void remember_secret(std::string_view value) {
  if (value.empty()) return;
  const std::lock_guard lock{mutex};
  if (registered->contains(std::string{value})) return;
  auto shown = std::make_shared<Shown>(*registered);
  shown->try_emplace(std::string{value}, mask);
  add_address(*shown, value);
  add_keywords(*shown, value);
  add_authorization(*shown, value);
  registered = std::move(shown);
}

std::string without_secrets(std::string_view text) {
  std::shared_ptr<const Shown> shown;
  {
    const std::lock_guard lock{mutex};
    shown = registered;
  }
  std::string out{text};
  for (const auto& [value, instead] : *shown) {
    for (std::size_t at = out.find(value); at != std::string::npos; at = out.find(value, at)) {
      if (value.size() < min_part && !stands_alone(out, at, value.size())) {
        ++at;
        continue;
      }
      out.replace(at, value.size(), instead);
      at += instead.size();
    }
  }
  mask_beginning_at_cut(out, *shown);
  return out;
}

}  // namespace twinbox::app
