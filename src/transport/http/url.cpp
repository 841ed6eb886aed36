#include "transport/http/url.hpp"

#include <curl/curl.h>
#include <memory>
#include <stdexcept>

namespace twinbox {
namespace {

/// Empty when the address has no such part.
std::string part(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
  const std::unique_ptr<char, void (*)(void*)> owner{text, curl_free};
  return text;
}

[[noreturn]] void refuse(const std::string& display_name, const std::string& why) {
  throw std::invalid_argument("url '" + display_name + "': " + why);
}

}  // namespace

HttpUrl HttpUrl::parse(const std::string& text) {
  const std::string before_query = text.substr(0, text.find_first_of("?#"));
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url{curl_url(), curl_url_cleanup};
  if (!url) throw std::bad_alloc{};
  // It may contain a user and a password: then no part of it is shown.
  const std::string before = before_query.find('@') == std::string::npos ? before_query : "…";
  const CURLUcode code = text.find('\0') == std::string::npos
                             ? curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0)
                             : CURLUE_MALFORMED_INPUT;
  const std::string scheme = part(url.get(), CURLUPART_SCHEME);
  if (code != CURLUE_OK || (scheme != "http" && scheme != "https")) {
    refuse(before, "expected an address like https://example.com/path");
  }
  if (!part(url.get(), CURLUPART_USER).empty() || !part(url.get(), CURLUPART_PASSWORD).empty()) {
    refuse("…", "must not hold a user or a password; send an Authorization header instead");
  }
  if (!part(url.get(), CURLUPART_FRAGMENT).empty()) refuse(before, "must not have a fragment (#…)");
  const std::string host =
      scheme + "://" + part(url.get(), CURLUPART_HOST) + ":" + part(url.get(), CURLUPART_PORT);
  return {text, host, before};
}

}  // namespace twinbox
