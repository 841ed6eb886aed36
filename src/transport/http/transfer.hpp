// One request in progress.
#pragma once

#include <atomic>
#include <chrono>
#include <curl/curl.h>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "transport/http/address.hpp"
#include "transport/http/url.hpp"
#include "twinbox/sink.hpp"

namespace twinbox {

/// Throws std::invalid_argument for a header that cannot be sent.
void check_header(const HttpHeaders::Field& field);

/// Made by the sender, worked on by the loop, read by the sender again once `done` is set.
class Transfer {
 public:
  /// `request` and `filter` must outlive it. Throws std::invalid_argument for what cannot be sent.
  Transfer(const HttpRequest& request, const HttpClientOptions& options,
           const AddressFilter& filter, Duration timeout);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  [[nodiscard]] CURL* easy() const noexcept { return easy_; }
  [[nodiscard]] const std::string& host() const noexcept { return url_.host; }
  /// The answer; throws HttpError when none came.
  HttpResponse answer();

  using Clock = std::chrono::steady_clock;

  std::atomic<bool> cancelled = false;
  Duration grace = {};                             ///< after cancellation, if it is in progress
  std::optional<Clock::time_point> abort_at = {};  ///< the loop's: when that is over
  CURLcode result = CURLE_OK;
  std::promise<void> done;

 private:
  void set_request(const HttpRequest& request);
  void set_connection(const HttpClientOptions& options, Duration timeout);
  static std::size_t read_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t read_body(char* data, std::size_t size, std::size_t count, void* self);
  static curl_socket_t open_socket(void* self, curlsocktype purpose, curl_sockaddr* address);

  const AddressFilter& filter_;
  HttpUrl url_;
  bool by_proxy_;
  std::size_t max_response_;
  Duration timeout_;
  CURL* easy_;
  curl_slist* headers_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
  HttpResponse response_;
  std::size_t header_bytes_ = 0;
  bool headers_ended_ = false;
  bool truncated_ = false;
  std::string refused_;  ///< the last address that the filter did not allow, and why
};

}  // namespace twinbox
