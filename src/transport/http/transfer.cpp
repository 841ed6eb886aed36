#include "transport/http/transfer.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <sys/socket.h>

namespace twinbox {
namespace {

constexpr std::size_t max_header_bytes = 64 * 1024;

bool is_token(std::string_view text) noexcept {
  constexpr std::string_view signs = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           signs.find(c) != std::string_view::npos;
  });
}

template <class T>
void set(CURL* easy, CURLoption option, T value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc{};
  if (code != CURLE_OK) {
    throw std::runtime_error("libcurl does not know option " + std::to_string(option) + ": " +
                             curl_easy_strerror(code));
  }
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace

void check_header(const HttpHeaders::Field& field) {
  if (!is_token(field.name)) {
    throw std::invalid_argument("header '" + field.name + "': that is no name of a header");
  }
  for (const std::string_view own :
       {"Content-Length", "Transfer-Encoding", "Connection", "Expect"}) {
    if (HttpHeaders{{field.name, ""}}.find(own)) {
      throw std::invalid_argument("header '" + field.name +
                                  "': is made by the client; leave it out");
    }
  }
  const bool clean = std::ranges::none_of(field.value, [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
  if (!clean) {
    throw std::invalid_argument("header '" + field.name +
                                "': its value holds a line break or another control character");
  }
}

Transfer::Transfer(const HttpRequest& request, const HttpClientOptions& options,
                   const AddressFilter& filter, Duration timeout)
    : filter_(filter),
      url_(HttpUrl::parse(request.target)),
      by_proxy_(!options.proxy.empty()),
      max_response_(options.max_response),
      timeout_(timeout),
      easy_(curl_easy_init()) {
  if (easy_ == nullptr) throw std::bad_alloc{};
  try {
    set_request(request);
    set_connection(options, timeout);
  } catch (...) {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(easy_);
    throw;
  }
}

Transfer::~Transfer() {
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

void Transfer::set_request(const HttpRequest& request) {
  const auto add = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc{};
    headers_ = longer;
  };
  if (!is_token(request.method)) {
    throw std::invalid_argument("method '" + request.method + "': expected one like POST");
  }
  for (const HttpHeaders::Field& field : request.headers) {
    check_header(field);
    add(field.value.empty() ? field.name + ";" : field.name + ": " + field.value);
  }
  add("Expect:");  // costs a round trip, and a second with receivers that do not support it
  if (!request.headers.find("Content-Type")) add("Content-Type:");
  if (!request.headers.find("User-Agent")) set(easy_, CURLOPT_USERAGENT, "twinbox");
  set(easy_, CURLOPT_URL, url_.text.c_str());
  if (request.method == "GET" && request.body.empty()) {
    set(easy_, CURLOPT_HTTPGET, 1L);
  } else {
    set(easy_, CURLOPT_POST, 1L);
    set(easy_, CURLOPT_POSTFIELDS, request.body.data());
    set(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  set(easy_, CURLOPT_HTTPHEADER, headers_);
}

void Transfer::set_connection(const HttpClientOptions& options, Duration timeout) {
  const auto millis = [](Duration time) {
    return static_cast<long>(std::max<std::int64_t>(
        1, std::chrono::duration_cast<std::chrono::milliseconds>(time).count()));
  };
  set(easy_, CURLOPT_PRIVATE, this);
  set(easy_, CURLOPT_ERRORBUFFER, error_);
  set(easy_, CURLOPT_NOSIGNAL, 1L);
  set(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  set(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy_, CURLOPT_CONNECTTIMEOUT_MS, millis(options.connect_timeout));
  set(easy_, CURLOPT_TIMEOUT_MS, millis(timeout));
  // A hanging name server must not block the thread that serves all other transfers.
  set(easy_, CURLOPT_QUICK_EXIT, 1L);
  set(easy_, CURLOPT_PROXY, options.proxy.c_str());
  if (options.proxy.empty()) set(easy_, CURLOPT_NOPROXY, "*");
  set(easy_, CURLOPT_SSL_VERIFYPEER, 1L);
  set(easy_, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options.ca_file.empty()) set(easy_, CURLOPT_CAINFO, options.ca_file.c_str());
  if (!options.certificate_file.empty()) {
    const std::string& key = options.key_file.empty() ? options.certificate_file : options.key_file;
    set(easy_, CURLOPT_SSLCERT, options.certificate_file.c_str());
    set(easy_, CURLOPT_SSLKEY, key.c_str());
  }
  set(easy_, CURLOPT_HEADERFUNCTION, &Transfer::read_header);
  set(easy_, CURLOPT_HEADERDATA, this);
  set(easy_, CURLOPT_WRITEFUNCTION, &Transfer::read_body);
  set(easy_, CURLOPT_WRITEDATA, this);
  set(easy_, CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_socket);
  set(easy_, CURLOPT_OPENSOCKETDATA, this);
}

std::size_t Transfer::read_header(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::string_view line{data, size * count};
  transfer.header_bytes_ += line.size();
  if (transfer.header_bytes_ > max_header_bytes) return 0;
  try {
    const bool first = line.starts_with("HTTP/");
    if (first) {  // the previous one was an interim answer
      transfer.response_ = {};
      transfer.headers_ended_ = false;
    }
    if (trimmed(line).empty()) transfer.headers_ended_ = true;
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && !first) {
      transfer.response_.headers.add(std::string{line.substr(0, colon)},
                                     std::string{trimmed(line.substr(colon + 1))});
    }
  } catch (...) {
    return 0;
  }
  return line.size();
}

std::size_t Transfer::read_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::string_view piece{data, size * count};
  std::string& body = transfer.response_.body;
  const std::size_t room = transfer.max_response_ - std::min(transfer.max_response_, body.size());
  try {
    body.append(piece.substr(0, room));
  } catch (...) {
    return 0;
  }
  transfer.truncated_ = piece.size() > room;
  return transfer.truncated_ ? 0 : piece.size();
}

curl_socket_t Transfer::open_socket(void* self, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (!transfer.by_proxy_) {
    const std::optional<IpAddress> ip = IpAddress::of(address->addr);
    const std::string_view why = ip ? transfer.filter_.refusal(*ip) : "neither IPv4 nor IPv6";
    if (!why.empty()) {
      try {
        transfer.refused_ = (ip ? ip->str() + " is " : "its address is ") + std::string{why};
      } catch (...) {
        transfer.refused_.clear();  // then the error is that it could not connect
      }
      return CURL_SOCKET_BAD;
    }
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

HttpResponse Transfer::answer() {
  const auto no_answer = [&](const std::string& why) {
    return HttpError(url_.display_name + ": " + why);
  };
  if (result == CURLE_ABORTED_BY_CALLBACK) throw no_answer("stopped before the answer was there");
  if (result == CURLE_OK && !headers_ended_) throw no_answer("the answer broke off in its headers");
  if (result == CURLE_OK || (result == CURLE_WRITE_ERROR && truncated_)) {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
    return std::move(response_);
  }
  if (result == CURLE_COULDNT_CONNECT && !refused_.empty()) {
    throw no_answer(refused_ +
                    ", and requests to such addresses are refused unless they are "
                    "allowed by name (allow)");
  }
  const std::string detail = error_[0] != '\0' ? error_ : curl_easy_strerror(result);
  if (result == CURLE_OPERATION_TIMEDOUT) {
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
    throw no_answer("no complete answer in time (limit " + std::to_string(limit) +
                    " ms): " + detail);
  }
  if (header_bytes_ > max_header_bytes) {
    throw no_answer("its headers are longer than " + std::to_string(max_header_bytes) + " bytes");
  }
  throw no_answer(detail);
}

}  // namespace twinbox
