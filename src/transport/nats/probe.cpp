#include "transport/nats/probe.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/json.hpp"
#include "transport/nats/connection.hpp"

namespace twinbox::nats {
namespace {

constexpr std::size_t largest_answer = 256 * 1024;

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

/// Sends `request` and reads until the other side ends, or until `enough`. Empty: no answer.
template <class Enough>
std::string ask(const Server& server, const std::string& request, Enough enough) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(server.host.c_str(), std::to_string(server.port).c_str(), &hints, &found) != 0) {
    return {};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned{found, freeaddrinfo};
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const Socket socket{::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, 0)};
    const timeval limit{.tv_sec = 2, .tv_usec = 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) continue;
    if (!request.empty() && send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
      continue;
    }
    std::string answer;
    char buffer[4096];
    while (!enough(answer) && answer.size() < largest_answer) {
      const ssize_t got = recv(socket.get(), buffer, sizeof buffer, 0);
      if (got <= 0) break;
      answer.append(buffer, static_cast<std::size_t>(got));
    }
    return answer;
  }
  return {};
}

std::string_view member(std::string_view object, std::string_view name) {
  const auto parts = split_json_object(object);
  if (!parts) return {};
  const auto found = std::ranges::find(*parts, name, &JsonPart::name);
  return found == parts->end() ? std::string_view{} : found->value;
}

/// `INFO {…}`: a server's first message.
std::string read_version(const Server& server) {
  const std::string text =
      ask(server, "", [](const std::string& answer) { return answer.ends_with("\r\n"); });
  if (!text.starts_with("INFO ")) return {};
  return json_string(member(std::string_view{text}.substr(5, text.size() - 7), "version"))
      .value_or("");
}

/// Before 2.10 the interval was fixed.
bool syncs_each_minute(std::string_view version) {
  int parts[2] = {0, 0};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& part : parts) {
    at = std::from_chars(at, end, part).ptr;
    if (at != end && *at == '.') ++at;
  }
  return parts[0] < 2 || (parts[0] == 2 && parts[1] < 10);
}

/// The settings of JetStream as the monitoring port shows them.
std::string read_settings(const std::string& url) {
  const Address address = Address::parse("nats://" + url.substr(std::string{"http://"}.size()));
  const std::string text = ask(address.servers.at(0), "GET /jsz HTTP/1.0\r\n\r\n",
                               [](const std::string&) { return false; });
  const std::size_t body = text.find("\r\n\r\n");
  if (body == std::string::npos) return {};
  return std::string{member(std::string_view{text}.substr(body + 4), "config")};
}

}  // namespace

SyncPolicy read_sync_policy(const NatsConnection& connection) {
  using State = SyncPolicy::State;
  const Address address = Address::parse(connection.url);
  const std::string version = read_version(address.servers.at(0));
  if (!version.empty() && syncs_each_minute(version)) {
    return {State::sometimes, "server " + version + " writes to disk once a minute"};
  }
  if (connection.monitor_url.empty()) {
    return {State::unknown, "only the monitoring port shows how often the server writes to disk"};
  }
  const std::string settings = read_settings(connection.monitor_url);
  if (settings.empty()) {
    return {State::unknown, connection.monitor_url +
                                " does not answer as a server's monitoring "
                                "port does"};
  }
  if (member(settings, "sync_always") == "true") {
    return {State::always, "the server writes to disk before it acknowledges (sync_always)"};
  }
  const std::string_view interval = member(settings, "sync_interval");
  std::int64_t nanoseconds = 120'000'000'000;
  std::from_chars(interval.data(), interval.data() + interval.size(), nanoseconds);
  return {State::sometimes, "the server writes to disk every " +
                                std::to_string(nanoseconds / 1'000'000'000) + " s (sync_interval)"};
}

}  // namespace twinbox::nats
