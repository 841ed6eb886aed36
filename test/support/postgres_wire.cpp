#include "support/postgres_wire.hpp"

#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace twinbox::test {
namespace {

constexpr int look_every_ms = 5;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Where the port stands in `postgresql://user@host:port/name`.
std::pair<std::size_t, std::size_t> port_in(const std::string& address) {
  const std::size_t begin = address.find(':', address.find('@')) + 1;
  return {begin, address.find('/', begin)};
}

/// False when the other side has ended.
bool pass(int from, int to, bool swallow) {
  std::array<char, 16384> bytes;
  const ssize_t count = ::recv(from, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  for (ssize_t sent = 0; sent < count && !swallow;) {
    const ssize_t step =
        ::send(to, bytes.data() + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
    if (step <= 0) return false;
    sent += step;
  }
  return true;
}

}  // namespace

PostgresWire::PostgresWire(const std::string& server_address)
    : address_(server_address), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto [begin, end] = port_in(server_address);
  server_port_ = std::stoi(server_address.substr(begin, end - begin));
  sockaddr_in own = loopback(0);
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (::bind(listener_, address, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, address, &size) != 0) {
    throw std::runtime_error("no port on the loopback");
  }
  address_.replace(begin, end - begin, std::to_string(ntohs(own.sin_port)));
  thread_ = std::thread([this] { serve(); });
}

PostgresWire::~PostgresWire() {
  ends_ = true;
  thread_.join();
  ::close(listener_);
}

void PostgresWire::serve() {
  while (!ends_) {
    pollfd ready{listener_, POLLIN, 0};
    if (::poll(&ready, 1, look_every_ms) <= 0) continue;
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) continue;
    forward(client);
    ::close(client);
  }
}

void PostgresWire::forward(int client) {
  const int server = connect_to_server();
  cut_ = false;
  swallow_ = false;
  bool server_spoke = true;
  while (!ends_ && !cut_) {
    std::array<pollfd, 2> ready{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
    if (::poll(ready.data(), ready.size(), look_every_ms) <= 0) continue;
    char first = 0;
    const bool asks =
        ready[0].revents != 0 && ::recv(client, &first, 1, MSG_PEEK) == 1 && first == 'Q';
    if (asks && until_login_.exchange(false)) swallow_ = true;
    if (ready[0].revents != 0) {
      if (std::exchange(server_spoke, false)) ++round_trips_;
      if (!pass(client, server, false)) break;
    }
    if (ready[1].revents != 0) {
      if (until_answer_.exchange(false)) break;
      server_spoke = true;
      if (!pass(server, client, swallow_)) break;
    }
  }
  ::close(server);
}

int PostgresWire::connect_to_server() const {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(server_port_);
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(server);
    throw std::runtime_error("the test server cannot be reached");
  }
  return server;
}

}  // namespace twinbox::test
