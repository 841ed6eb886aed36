#include <algorithm>
#include <stdexcept>

#include "transport/deduplication_key.hpp"
#include "transport/http/sink_request.hpp"
#include "transport/http/transfer.hpp"
#include "transport/http/url.hpp"
#include "twinbox/event.hpp"
#include "twinbox/sink.hpp"
#include "twinbox/webhook.hpp"

namespace twinbox {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("http sink: " + why);
}

void check_statuses(const char* name, const std::set<int>& statuses) {
  for (const int status : statuses) {
    if (status >= 200 && status <= 599) continue;
    refuse(std::string{name} + " holds " + std::to_string(status) + ", 200 to 599 are allowed");
  }
}

HttpSinkOptions checked(HttpSinkOptions options) {
  options.check();
  return options;
}

class HttpSink {
 public:
  HttpSink(std::shared_ptr<HttpClient> client, HttpSinkOptions options, Environment environment)
      : client_(std::move(client)),
        options_(checked(std::move(options))),
        environment_(std::move(environment)),
        url_(HttpUrl::parse(options_.url)) {
    if (!client_) refuse("needs a client");
    if (!options_.secrets.empty()) signer_.emplace(options_.secrets);
  }

  Outcome operator()(const Message& message, std::stop_token stop) const {
    try {
      const HttpRequest request = signed_request(message);
      return outcome_of(client_->send(request, options_.timeout, std::move(stop), options_.grace),
                        options_, url_.display_name, now());
    } catch (const HttpError& error) {
      return Outcome::retry(error.what(), {}, "no http answer");
    } catch (const std::invalid_argument& error) {  // EventError, or a header that cannot be sent
      return Outcome::malformed(error.what());
    }
  }

 private:
  [[nodiscard]] Instant now() const {
    return environment_.now().value_or(
        std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()));
  }

  [[nodiscard]] HttpRequest signed_request(const Message& message) const {
    HttpRequest request = request_of(message, options_);
    if (!signer_) return request;
    const std::string key = deduplication_key(message);
    for (const HttpHeaders::Field& field : signer_->sign(key, now(), request.body)) {
      request.headers.set(field.name, field.value);
    }
    return request;
  }

  std::shared_ptr<HttpClient> client_;
  HttpSinkOptions options_;
  Environment environment_;
  HttpUrl url_;
  std::optional<WebhookSigner> signer_;
};

}  // namespace

void HttpSinkOptions::check() const {
  constexpr std::string_view methods[] = {"POST", "PUT", "PATCH"};
  if (std::ranges::find(methods, method) == std::end(methods)) {
    refuse("method '" + method + "', expected POST, PUT or PATCH");
  }
  if (timeout <= Duration::zero()) refuse("timeout must be longer than zero");
  if (max_retry_after <= Duration::zero()) refuse("max_retry_after must be longer than zero");
  if (grace < Duration::zero()) refuse("grace must not be below zero");
  for (const HttpHeaders::Field& field : headers) check_header(field);
  check_statuses("done_on", done_on);
  check_statuses("dead_on", dead_on);
  static_cast<void>(HttpUrl::parse(url));
  if (!secrets.empty()) static_cast<void>(WebhookSigner{secrets});
}

MessageHandler http_sink(std::shared_ptr<HttpClient> client, HttpSinkOptions options,
                         Environment environment) {
  // Shared by the copies that are made of a handler.
  const auto sink = std::make_shared<const HttpSink>(std::move(client), std::move(options),
                                                     std::move(environment));
  return [sink](const Message& message, std::stop_token stop) {
    return (*sink)(message, std::move(stop));
  };
}

}  // namespace twinbox
