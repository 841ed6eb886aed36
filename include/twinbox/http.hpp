// HTTP requests and responses as values, without a socket: mount them in the server of your choice.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twinbox {

/// Header fields in their original order. Names are compared without regard to case.
class HttpHeaders {
 public:
  struct Field {
    std::string name;
    std::string value;
  };

  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<Field> fields) : fields_(fields) {}

  /// The first field of that name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  /// All fields of that name, in their order.
  [[nodiscard]] std::vector<std::string_view> all(std::string_view name) const;
  void add(std::string name, std::string value);
  /// Replaces every field of that name.
  void set(std::string_view name, std::string value);

  [[nodiscard]] auto begin() const noexcept { return fields_.begin(); }
  [[nodiscard]] auto end() const noexcept { return fields_.end(); }

 private:
  std::vector<Field> fields_;
};

struct HttpRequest {
  std::string method = "POST";
  std::string target = "/";  ///< path and query, unchanged
  HttpHeaders headers = {};
  std::string body = {};  ///< unchanged: signatures are verified over these bytes
  bool loopback = false;  ///< the peer is this machine
  /// The sender's name as verified by the server, such as the name of its token; empty: none.
  std::string sender = {};
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers = {};
  std::string body = {};
};

/// A problem document (RFC 9457). `detail` says what is wrong and what to do, never a payload; an
/// empty one is left out.
HttpResponse problem(int status, std::string_view title, std::string_view detail);
/// A JSON answer.
HttpResponse json_response(int status, std::string body);

}  // namespace twinbox
