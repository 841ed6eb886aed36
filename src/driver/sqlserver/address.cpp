#include "driver/sqlserver/address.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sql.h>
#include <sqlext.h>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/encoding.hpp"
#include "driver/sqlserver/odbc.hpp"

namespace twinbox::sqlserver {
namespace {

constexpr std::string_view scheme = "sqlserver://";
constexpr std::string_view password_file_word = "twinbox_password_file";
constexpr std::string_view form =
    " (expected sqlserver://user@host:port/database?Encrypt=yes or an ODBC connection string; "
    "special characters in a URL are written as %XX)";

using Pairs = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("the SQL Server address: " + reason + std::string{form});
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (ascii_lower(a[i]) != ascii_lower(b[i])) return false;
  }
  return true;
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// `key=value;key={value}`, where a closing brace inside braces is doubled.
Pairs split_connection_string(std::string_view text) {
  Pairs pairs;
  for (std::size_t at = 0; at < text.size();) {
    const auto equals = text.find('=', at);
    if (equals == std::string_view::npos) {
      if (!trim(text.substr(at)).empty()) refuse("a key without a value");
      break;
    }
    std::string key{trim(text.substr(at, equals - at))};
    std::string value;
    at = equals + 1;
    if (at < text.size() && text[at] == '{') {
      for (++at;; ++at) {
        if (at >= text.size()) refuse("a brace that is not closed");
        if (text[at] == '}' && (at + 1 == text.size() || text[at + 1] != '}')) break;
        if (text[at] == '}') ++at;
        value += text[at];
      }
      at = text.find(';', at);
    } else {
      const auto end = text.find(';', at);
      value = trim(text.substr(at, end == std::string_view::npos ? end : end - at));
      at = end;
    }
    pairs.emplace_back(std::move(key), std::move(value));
    if (at == std::string_view::npos) break;
    ++at;
  }
  return pairs;
}

const std::string* find(const Pairs& pairs, std::initializer_list<std::string_view> keys) {
  for (const auto& [key, value] : pairs) {
    for (const auto wanted : keys) {
      if (same_word(key, wanted)) return &value;
    }
  }
  return nullptr;
}

std::string join(const Pairs& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) {
    text.append(key) += '=';
    if (value.find_first_of("[]{}(),;?*=!@ ") == std::string::npos) {
      text += value;
    } else {
      text += '{';
      for (const char c : value) text.append(c == '}' ? 2 : 1, c);
      text += '}';
    }
    text += ';';
  }
  return text;
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  c = ascii_lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string unescape(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      result += text[at];
      continue;
    }
    const int high = at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[at + 2]) : -1;
    if (low < 0) refuse("a % without two hexadecimal digits");
    result += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return result;
}

std::string read_password(const std::string& file) {
  std::ifstream in{file};
  std::string line;
  if (!std::getline(in, line)) {
    throw std::invalid_argument("the SQL Server address: the file of " +
                                std::string{password_file_word} + " (" + file +
                                ") cannot be read: check its path and its permissions");
  }
  return line;
}

/// Microsoft's driver when it is installed, else FreeTDS.
std::string installed_driver() {
  const auto environment = new_environment();
  std::string chosen = "FreeTDS";
  std::vector<SQLCHAR> name(256);
  std::vector<SQLCHAR> attributes(1024);
  SQLSMALLINT name_length = 0;
  SQLSMALLINT attributes_length = 0;
  for (SQLUSMALLINT direction = SQL_FETCH_FIRST;
       succeeded(SQLDrivers(environment.get(), direction, name.data(),
                            static_cast<SQLSMALLINT>(name.size()), &name_length, attributes.data(),
                            static_cast<SQLSMALLINT>(attributes.size()), &attributes_length));
       direction = SQL_FETCH_NEXT) {
    std::string found{reinterpret_cast<const char*>(name.data())};
    const bool microsoft = found.starts_with("ODBC Driver ") && found.ends_with(" for SQL Server");
    // The names differ in their number only, so that the newest is the last in order.
    if (microsoft && (chosen == "FreeTDS" || found > chosen)) chosen = std::move(found);
  }
  return chosen;
}

struct Url {
  std::string user;
  std::optional<std::string> password;
  std::string host;
  std::string port;
  std::string database;
  Pairs parameters;
};

Url split_url(std::string_view text) {
  Url url;
  text.remove_prefix(scheme.size());
  if (const auto query = text.find('?'); query != std::string_view::npos) {
    for (auto left = text.substr(query + 1); !left.empty();) {
      const auto end = left.find('&');
      const auto pair = left.substr(0, end);
      left = end == std::string_view::npos ? std::string_view{} : left.substr(end + 1);
      const auto equals = pair.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        refuse("a parameter without a name or a value");
      }
      url.parameters.emplace_back(unescape(pair.substr(0, equals)),
                                  unescape(pair.substr(equals + 1)));
    }
    text = text.substr(0, query);
  }
  if (const auto slash = text.find('/'); slash != std::string_view::npos) {
    url.database = unescape(text.substr(slash + 1));
    text = text.substr(0, slash);
  }
  if (const auto at = text.rfind('@'); at != std::string_view::npos) {
    const auto who = text.substr(0, at);
    const auto colon = who.find(':');
    url.user = unescape(who.substr(0, colon));
    if (colon != std::string_view::npos) url.password = unescape(who.substr(colon + 1));
    text = text.substr(at + 1);
  }
  const auto colon = text.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && text.find(']', colon) == std::string_view::npos;
  url.port = has_port ? std::string{text.substr(colon + 1)} : "1433";
  url.host = unescape(text.substr(0, has_port ? colon : text.size()));
  if (url.host.empty()) refuse("no host");
  if (url.port.empty() || url.port.size() > 5 ||
      url.port.find_first_not_of("0123456789") != std::string::npos) {
    refuse("the port is no number");
  }
  return url;
}

Pairs pairs_of(Url url) {
  std::string driver;
  std::optional<std::string> password_file;
  std::erase_if(url.parameters, [&](const auto& pair) {
    if (same_word(pair.first, "driver")) driver = pair.second;
    if (pair.first == password_file_word) password_file = pair.second;
    return same_word(pair.first, "driver") || pair.first == password_file_word;
  });
  if (driver.empty()) driver = installed_driver();
  Pairs pairs{{"Driver", driver}};
  // A section of freetds.conf has the server's address; FreeTDS takes only one of the two.
  if (find(url.parameters, {"servername"}) == nullptr) {
    pairs.emplace_back("Server", url.host + "," + url.port);
  }
  if (!url.database.empty()) pairs.emplace_back("Database", url.database);
  if (!url.user.empty()) pairs.emplace_back("UID", url.user);
  if (password_file) {
    pairs.emplace_back("PWD", read_password(*password_file));
  } else if (url.password) {
    pairs.emplace_back("PWD", *url.password);
  } else if (const char* known = std::getenv("SQLCMDPASSWORD");
             known != nullptr && !url.user.empty()) {
    pairs.emplace_back("PWD", known);
  }
  for (auto& parameter : url.parameters) pairs.push_back(std::move(parameter));
  return pairs;
}

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](auto word) { return same_word(value, word); });
}

/// FreeTDS ignores unknown keywords, including Microsoft's for encryption: a connection that should
/// be encrypted would be in clear text.
void translate_encryption(Pairs& pairs) {
  for (auto& [key, value] : pairs) {
    if (same_word(key, "encrypt")) {
      key = "Encryption";
      if (is_one_of(value, {"yes", "true", "1", "mandatory"})) value = "require";
      if (is_one_of(value, {"no", "false", "0", "optional"})) value = "request";
    } else if (same_word(key, "trustservercertificate") &&
               !is_one_of(value, {"yes", "true", "1"})) {
      refuse(
          "FreeTDS cannot be told here to check the certificate: name a section of freetds.conf "
          "that has a ca file (Servername=section instead of this), or use Microsoft's driver");
    }
  }
}

/// Overrides FreeTDS's own configuration: microseconds and long text need this protocol.
void complete(Pairs& pairs) {
  const auto* driver = find(pairs, {"driver"});
  const bool freetds = driver != nullptr && (driver->find("TDS") != std::string::npos ||
                                             driver->find("tds") != std::string::npos);
  if (freetds) {
    translate_encryption(pairs);
    if (find(pairs, {"tds_version"}) == nullptr) pairs.emplace_back("TDS_Version", "7.4");
    if (find(pairs, {"clientcharset"}) == nullptr) pairs.emplace_back("ClientCharset", "UTF-8");
  }
  if (find(pairs, {"app"}) == nullptr) pairs.emplace_back("APP", "twinbox");
}

}  // namespace

bool is_address(std::string_view text) noexcept {
  if (text.starts_with(scheme)) return true;
  if (text.find("://") != std::string_view::npos && text.find(';') == std::string_view::npos) {
    return false;
  }
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(';', at), text.size());
    const auto pair = text.substr(at, end - at);
    const auto key = trim(pair.substr(0, pair.find('=')));
    for (const std::string_view word : {"driver", "dsn", "filedsn"}) {
      if (pair.find('=') != std::string_view::npos && same_word(key, word)) return true;
    }
    at = end + 1;
  }
  return false;
}

Address parse_address(std::string_view text) {
  auto pairs = text.starts_with(scheme) ? pairs_of(split_url(text)) : split_connection_string(text);
  const auto value = [&](std::initializer_list<std::string_view> keys) {
    const auto* found = find(pairs, keys);
    return found == nullptr ? std::string{} : *found;
  };
  Address address;
  std::string host = value({"server", "address", "addr", "servername"});
  if (host.starts_with("tcp:")) host.erase(0, 4);
  const auto comma = host.rfind(',');
  const std::string port = comma != std::string::npos ? host.substr(comma + 1) : value({"port"});
  host.resize(std::min(comma, host.size()));
  const std::string dsn = value({"dsn", "filedsn"});
  address.server = host.empty() ? dsn : host + ":" + (port.empty() ? "1433" : port);
  address.database = value({"database"});
  address.shown = "sqlserver://" + value({"uid", "user", "username"}) + "@" + address.server + "/" +
                  address.database;
  complete(pairs);
  address.connection_string = join(pairs);
  return address;
}

}  // namespace twinbox::sqlserver
