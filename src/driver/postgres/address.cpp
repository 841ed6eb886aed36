#include "driver/postgres/address.hpp"

#include <array>
#include <cstdlib>
#include <memory>
#include <netdb.h>
#include <optional>
#include <stdexcept>
#include <sys/socket.h>
#include <utility>

#include <libpq-fe.h>

#include "driver/postgres/failure.hpp"

namespace twinbox::postgres {
namespace {

constexpr std::string_view pooler_word = "twinbox_pooler";

using Options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

struct Split {
  std::string rest;
  std::optional<std::string> pooler;
};

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool is_uri(std::string_view text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

Split split_uri(std::string_view uri) {
  // A `?` may also stand in the user part; the query begins at the first one after it.
  const auto authority = uri.find("://") + 3;
  const auto at = uri.substr(0, uri.find('/', authority)).rfind('@');
  const auto query = uri.find('?', at == std::string_view::npos ? authority : at);
  if (query == std::string_view::npos) return {std::string{uri}, {}};
  Split split{std::string{uri.substr(0, query)}, {}};
  char separator = '?';
  for (auto left = uri.substr(query + 1); !left.empty();) {
    const auto end = left.find('&');
    const auto pair = left.substr(0, end);
    left = end == std::string_view::npos ? std::string_view{} : left.substr(end + 1);
    if (pair.substr(0, pair.find('=')) == pooler_word) {
      const auto equals = pair.find('=');
      split.pooler = equals == std::string_view::npos ? "" : std::string{pair.substr(equals + 1)};
    } else {
      split.rest += separator;
      split.rest += pair;
      separator = '&';
    }
  }
  return split;
}

/// Follows libpq's own rules: `key = value`, values in single quotes or without blanks, backslash
/// escapes.
Split split_pairs(std::string_view text) {
  Split split;
  std::size_t i = 0;
  const auto skip_blanks = [&] {
    while (i < text.size() && is_blank(text[i])) ++i;
  };
  for (skip_blanks(); i < text.size(); skip_blanks()) {
    const auto begin = i;
    while (i < text.size() && text[i] != '=' && !is_blank(text[i])) ++i;
    const auto key = text.substr(begin, i - begin);
    skip_blanks();
    std::string value;
    if (i < text.size() && text[i] == '=') {
      ++i;
      skip_blanks();
      const bool quoted = i < text.size() && text[i] == '\'';
      if (quoted) ++i;
      while (i < text.size() && (quoted ? text[i] != '\'' : !is_blank(text[i]))) {
        if (text[i] == '\\' && i + 1 < text.size()) ++i;
        value += text[i++];
      }
      if (quoted && i < text.size()) ++i;
    }
    if (key == pooler_word) {
      split.pooler = value;
    } else {
      split.rest.append(split.rest.empty() ? 0 : 1, ' ').append(text.substr(begin, i - begin));
    }
  }
  return split;
}

/// libpq quotes the part it failed on, which may be a piece of a password.
std::string reason_without_quotes(const char* message) {
  std::string reason = message == nullptr ? "out of memory" : first_line(message);
  if (const auto quote = reason.find('"'); quote != std::string::npos)
    reason.replace(quote, std::string::npos, "…");
  return reason;
}

std::map<std::string, std::string> given_settings(const std::string& conninfo) {
  char* message = nullptr;
  const Options options{PQconninfoParse(conninfo.c_str(), &message), &PQconninfoFree};
  const std::unique_ptr<char, decltype(&PQfreemem)> owned_message{message, &PQfreemem};
  if (options == nullptr) {
    throw std::invalid_argument(
        "the PostgreSQL address cannot be understood: " + reason_without_quotes(message) +
        " (expected postgresql://user@host:port/database?parameter=value or "
        "host=… dbname=…; special characters in a URI are written as %XX)");
  }
  std::map<std::string, std::string> settings;
  for (const auto* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) settings[option->keyword] = option->val;
  }
  return settings;
}

Pooler pooler_of(const std::optional<std::string>& mode) {
  if (!mode) return Pooler::unknown;
  if (*mode == "session") return Pooler::session;
  if (*mode == "transaction") return Pooler::transaction;
  throw std::invalid_argument(
      "the PostgreSQL address: twinbox_pooler can only be 'session' or 'transaction', the mode of "
      "the pooler; leave it out for a direct connection");
}

/// Fills in what may be shown.
void describe(Address& address) {
  std::map<std::string, std::string> all;
  const Options defaults{PQconndefaults(), &PQconninfoFree};
  for (const auto* option = defaults.get(); option != nullptr && option->keyword != nullptr;
       ++option) {
    if (option->val != nullptr) all[option->keyword] = option->val;
  }
  for (const auto& [key, value] : address.settings) all[key] = value;
  const auto value = [&](const char* key, const std::string& otherwise) {
    const auto found = all.find(key);
    return found == all.end() || found->second.empty() ? otherwise : found->second;
  };
  const auto user = value("user", "");
  address.server = value("host", value("hostaddr", "local")) + ":" + value("port", "5432");
  address.database = value("dbname", user);
  address.shown = "postgresql://" + user + "@" + address.server + "/" + address.database;
  // Only libpq reads the service file.
  if (const auto service = value("service", ""); !service.empty()) {
    if (!all.contains("host") && !all.contains("hostaddr")) address.server = "service " + service;
    if (!all.contains("dbname")) address.database.clear();
  }
}

}  // namespace

std::vector<std::string> look_up(const std::string& host) {
  // libpq handles a list that does not match, and the folder of a socket.
  if (host.empty() || host.front() == '/' || host.front() == '@' ||
      host.find(',') != std::string::npos)
    return {};
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned{list, &::freeaddrinfo};
  std::vector<std::string> addresses;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      addresses.emplace_back(text.data());
  }
  return addresses;
}

Address parse_address(std::string_view conninfo) {
  const auto split = is_uri(conninfo) ? split_uri(conninfo) : split_pairs(conninfo);
  Address address{given_settings(split.rest), pooler_of(split.pooler), {}};
  describe(address);

  auto& settings = address.settings;
  settings["client_encoding"] = "UTF8";
  settings.try_emplace("fallback_application_name", "twinbox");
  const bool service = settings.contains("service") || std::getenv("PGSERVICE") != nullptr;
  if (!service) {
    // A server that vanished is detected in 30 s while nothing is sent, and in 15 s after a send.
    settings.try_emplace("keepalives_idle", "15");
    settings.try_emplace("keepalives_interval", "5");
    settings.try_emplace("keepalives_count", "3");
    settings.try_emplace("tcp_user_timeout", "15000");
  }
  if (!service && std::getenv("PGCONNECT_TIMEOUT") == nullptr) {
    settings.try_emplace("connect_timeout", "10");
  }
  return address;
}

}  // namespace twinbox::postgres
