// Which request is answered by whom.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/http/request_batcher.hpp"
#include "daemon/http/request_target.hpp"
#include <twinbox/http.hpp>

namespace twinbox {
class Store;
}

namespace twinbox::app {

/// What a request must bring along.
enum class RequiredAccess {
  nothing,
  signature,  ///< the endpoint itself verifies who sent it
  send,
  read,
  operate,
  admin,
};

/// Who answers a request: each pool has threads and a queue of its own.
enum class RequestPoolKind {
  health,       ///< from memory, or one check for all who ask
  intake,       ///< stores messages
  read,         ///< reads
  operate,      ///< whatever needs the role operate: readers hold up no pause
  inline_call,  ///< calls a handler within the request
};
inline constexpr std::size_t request_pool_count = 5;

/// One request on its way to its endpoint.
struct EndpointRequest {
  const HttpRequest& request;
  const RequestTarget& target;
  std::string actor;  ///< whose token it brought; empty: none
};

/// Thrown by an endpoint: answered as a problem document.
class HttpProblem : public std::runtime_error {
 public:
  HttpProblem(int status, const std::string& detail)
      : std::runtime_error(detail), status_(status) {}
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

struct Endpoint {
  std::string method;
  std::string path;  ///< `/v1/outbox/{topic}`; `{…}` stands for one segment
  RequiredAccess need;
  std::function<HttpResponse(const EndpointRequest&)>
      call;            ///< `{…}` are where they stand in the target
  bool quick = false;  ///< asks no store: answered at once, in no pool
  RequestPoolKind pool = RequestPoolKind::read;
  bool reads_store =
      false;  ///< the one that `?store=` names; takes no longer than limit.query_timeout
  /// With whom a request is answered together; empty, or null: it is answered alone by `call`.
  std::function<std::shared_ptr<RequestBatcher>(const RequestTarget&)> shared = {};
  /// Asked before the body is read. False: there is nothing of that name; empty: there always is.
  std::function<bool(const RequestTarget&)> exists = {};
  /// Asked before the body is read, after the request's token: an answer, or what it throws,
  /// refuses the request. Empty: there is nothing to refuse. The request has its head only.
  std::function<std::optional<HttpResponse>(const EndpointRequest&)> refuse = {};
  /// The store that the request is for, where it is known before; null: unknown. Requests for one
  /// store leave threads to those for others.
  std::function<const Store*(const RequestTarget&)> store = {};
  /// True: this request is for RequestPoolKind::inline_call.
  std::function<bool(const RequestTarget&)> calls_handler = {};
};

struct Match {
  const Endpoint* endpoint;
  RequestTarget target;
};

/// The endpoint, or the answer that says there is none.
using EndpointLookup = std::variant<Match, HttpResponse>;

/// Not changed once it serves: read from many threads at once.
class HttpRouter {
 public:
  HttpRouter& add(Endpoint endpoint);
  [[nodiscard]] EndpointLookup find(std::string_view method, std::string_view target) const;
  /// Method and path of each, for the documentation.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> endpoints() const;

 private:
  struct Entry {
    Endpoint endpoint;
    std::vector<std::optional<std::string>> segments;  ///< empty: stands for any
  };
  std::vector<Entry> entries_;
};

}  // namespace twinbox::app
